-- hedge_task(campaign, task, lease, why): ends the lease of an attempt that is slow, so that the task waits for a
-- second one, which goes to another host first. The first goes on, and its success counts if no other
-- outcome was accepted before: see salvage(). A part of hedge(); not for clients.
--
-- why: kept as the attempt's error, for people.
-- Result: whether it did so. False if the lease is no longer the task's, or somebody has the task locked; if
--     the task was hedged before, or one more failure would fail it; or if the campaign no longer hedges, or
--     its tasks have had as many second attempts as it allows.
--
-- The attempt is recorded as hedged, which counts as neither a failure nor a loss.
--
-- Locks: the campaign's row, so that the campaign goes on salvaging meanwhile; the bundle of the task; its row. It
-- skips rows that somebody else has locked: it is called again soon. Index: campaign_pkey, bundle_task, bundle_pkey,
-- task_pkey, attempt_pkey, session_pkey.
create or replace function taskq.hedge_task(
    p_campaign bigint,
    p_task bigint,
    p_lease uuid,
    p_why text
)
returns boolean
language plpgsql
as $$
declare
    v_max_attempts integer;
    v_task record;
begin
    select c.max_attempts into v_max_attempts
      from taskq.campaign c
     where c.campaign_id = p_campaign
       and c.hedge is not null
       for no key update skip locked;
    if not found
       or taskq.status_after(p_campaign, 'waiting') <> 'waiting'
       or not taskq.unpack(p_campaign, array[p_task], array[p_lease], false)
    then
        return false;
    end if;
    select t.ctid as row_id, t.session_id, t.attempt, t.claimed_at into v_task
      from taskq.task t
     where t.campaign_id = p_campaign
       and t.task_id = p_task
       and t.lease_id = p_lease
       and t.status::text = 'working'
       and t.session_id <> 0
       and t.failures + 1 < v_max_attempts
       for no key update skip locked;
    if not found
       or exists (
           select
             from taskq.attempt a
            where a.campaign_id = p_campaign
              and a.task_id = p_task
              and (a.outcome::text = 'hedged'
                   or a.outcome::text = 'withdrawn' and a.error_class = 'hedged'))
    then
        return false;
    end if;
    insert into taskq.attempt (
           campaign_id, task_id, attempt, lease_id, session_id, claimed_at, ended_at, outcome, error_class,
           error)
    values (p_campaign, p_task, v_task.attempt, p_lease, v_task.session_id, v_task.claimed_at,
            clock_timestamp(), 'hedged', 'hedged', p_why);
    update taskq.task t
       set status = 'waiting',
           due_at = clock_timestamp(),
           avoids = taskq.avoiding(t.avoids, v_task.session_id)
     where t.ctid = v_task.row_id;  -- see settle()
    update taskq.campaign c
       set hedged = c.hedged + 1
     where c.campaign_id = p_campaign;
    insert into taskq.delta (campaign_id, waiting, working)
    values (p_campaign, 1, -1);
    return true;
end
$$;
