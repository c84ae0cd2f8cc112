-- What a connection keeps from being removed: the oldest transaction that it can still see running.
select backend_xmin::text from pg_stat_activity where pid = %(pid)s
