-- wal_timeline(): the number of the server's own timeline, which rises when a standby is promoted; 0: the
-- server hides it. Error 55000 on a standby.
--
-- It is the beginning of the current WAL file's name; pg_control_checkpoint() would show a promotion
-- only after the next checkpoint. Providers refuse these functions to everybody but themselves, or raise
-- what PostgreSQL raises on a standby; so only pg_is_in_recovery() says whether it is one.
create or replace function taskq.wal_timeline()
returns bigint
language plpgsql
as $$
begin
    return ('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))::bit(32)::bigint;
exception
    when others then
        if pg_is_in_recovery() then
            raise;
        end if;
        return 0;
end
$$;
