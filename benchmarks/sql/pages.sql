-- Pages of this database touched so far. Each process tells of its own once a second.
select blks_hit + blks_read as pages from pg_stat_database where datname = current_database()
