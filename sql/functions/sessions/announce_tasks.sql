-- announce_tasks(): wakes the gateways whose agents wait, since tasks may have become claimable.
--
-- Called after the commit that made them so. A notification takes a lock of the whole server until its
-- commit. So it is a transaction of its own that waits for no disk, it is sent only if another session
-- listens, and not while another transaction sends one: that one arrives after the caller's tasks too.
-- A lost one does no harm: gateways look again within a second.
--
-- Result: whether another session listens; true if another transaction is finding that out.
--
-- Locks: two advisory locks until the commit; waits for none.
-- @roles submitter operator gateway
-- @gateway no
-- @act no: it wakes agents, and changes nothing
create or replace function taskq.announce_tasks()
returns boolean
language plpgsql
as $$
begin
    if pg_try_advisory_xact_lock(hashtext('taskq.announce_tasks'), 0) then
        if pg_try_advisory_xact_lock(hashtext('taskq.listen_for_tasks'), 0) then
            return false;
        end if;
        perform set_config('synchronous_commit', 'off', true);
        notify taskq_tasks;
    end if;
    return true;
end
$$;
