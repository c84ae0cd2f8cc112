-- The log written so far, with the number of whole pages in it, and the size of this database.
select (pg_current_wal_insert_lsn() - '0/0')::bigint as bytes,
       (select wal_fpi from pg_stat_wal) as images,
       pg_database_size(current_database()) as size
