-- The server's timeline, which rises when a standby is promoted; see functions/timeline.sql. And the
-- process that answers, by which a pooler in between is seen. Asked of servers without the schema too.
select ('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))::bit(32)::bigint as timeline,
       pg_backend_pid() as pid
