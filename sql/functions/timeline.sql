-- timeline(): the number of the server's timeline, which rises only when a standby is promoted.
-- Error 55000 on a standby.
--
-- It is the beginning of the current WAL file's name; pg_control_checkpoint() would show a promotion
-- only after the next checkpoint.
create or replace function taskq.timeline()
returns bigint
language sql
as $$
    select ('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))::bit(32)::bigint
$$;
