-- The server's timeline, which rises when a standby is promoted; see functions/timeline.sql. Asked of
-- servers without the schema too.
select ('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))::bit(32)::bigint as timeline
