-- How far this server has written its log.
select pg_current_wal_lsn()::text as position
