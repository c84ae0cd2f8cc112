-- settle_one(campaign, report): settles one report of a success on a task that has a row, as most
-- exchanges have that are about one task. A part of exchange(), which records the moves; not for clients.
--
-- report: as settle() takes them; its outcome is done.
-- accepted: whether the report ended the attempt. If not, settle() finds out why.
--
-- Locks: the row of the task. Index: task_pkey; see settle() for why nothing else can be used.
create or replace function taskq.settle_one(p_campaign bigint, p_report jsonb, out accepted boolean)
language plpgsql
as $$
begin
    with ended as (
        delete from taskq.task t
         where t.campaign_id = p_campaign
           and t.task_id = (p_report ->> 'task')::bigint
           and t.lease_id = (p_report ->> 'lease')::uuid
           and (t.session_id = coalesce((p_report ->> 'session')::bigint, t.session_id)
                or t.session_id = 0
                and taskq.covers((p_report ->> 'session')::bigint, p_campaign))
           and t.status::text = 'working'
     returning t.task_id, t.attempt, t.lease_id, t.session_id, t.claimed_at
    )
    insert into taskq.attempt (
           campaign_id, task_id, attempt, exit_code, lease_id, session_id, claimed_at,
           ended_at, outcome, error_class, error, result, phases, tail)
    select p_campaign, e.task_id, e.attempt, (p_report ->> 'exit_code')::integer, e.lease_id,
           case when e.session_id = 0
                then coalesce((p_report ->> 'session')::bigint, (p_report ->> 'by')::bigint, 0)
                else e.session_id end,
           e.claimed_at, clock_timestamp(), 'done', null,
           p_report ->> 'error', p_report -> 'result', p_report -> 'phases', p_report ->> 'tail'
      from ended e;
    accepted := found;
end
$$;
