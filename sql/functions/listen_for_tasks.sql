-- listen_for_tasks(listening): lets announce_tasks() wake the calling session, or no longer.
--
-- The session listens on the channel taskq_tasks, and holds a lock that says so until it ends. A gateway
-- calls this when agents begin to wait, and when none has waited for some seconds.
--
-- Result: whether it listens now.
--
-- Locks: an advisory lock of the session, shared; waits at most for another's commit that writes nothing.
-- @roles gateway
create or replace function taskq.listen_for_tasks(p_listening boolean)
returns boolean
language plpgsql
as $$
begin
    if p_listening then
        listen taskq_tasks;
        perform pg_advisory_lock_shared(hashtext('taskq.listen_for_tasks'), 0);
    else
        unlisten taskq_tasks;
        perform pg_advisory_unlock_shared(hashtext('taskq.listen_for_tasks'), 0);
    end if;
    return p_listening;
end
$$;
