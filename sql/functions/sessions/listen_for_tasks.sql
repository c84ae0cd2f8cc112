-- listen_for_tasks(listening): lets announce_tasks() wake the calling session, or no longer.
--
-- The session listens on the channel taskq_tasks, and holds a lock that says so until it ends. A gateway
-- calls this when agents begin to wait, and when none has waited for some seconds.
--
-- Result: whether it listens now. If it should but does not, another session looked for listeners at this moment, or
-- holds the lock, as any login can: call again later.
--
-- Locks: an advisory lock of the session, shared; waits for none.
-- @roles gateway
create or replace function taskq.listen_for_tasks(p_listening boolean)
returns boolean
language plpgsql
as $$
begin
    if not p_listening then
        unlisten taskq_tasks;
        perform pg_advisory_unlock_shared(hashtext('taskq.listen_for_tasks'), 0);
        return false;
    end if;
    listen taskq_tasks;
    return pg_try_advisory_lock_shared(hashtext('taskq.listen_for_tasks'), 0);
end
$$;
