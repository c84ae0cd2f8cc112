-- timeline(): the number of the server's timeline, which rises when a standby is promoted and never else.
-- Error 55000 on a standby.
--
-- It is the beginning of the name of the file that is written now; pg_control_checkpoint() would tell
-- of a promotion only after the next checkpoint.
create or replace function taskq.timeline()
returns bigint
language sql
as $$
    select ('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))::bit(32)::bigint
$$;
