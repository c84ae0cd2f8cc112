-- task_state(campaign, task): the state of a task, see the view state: found by keys only, one row. A part of
-- tasks() and find_tasks(), which pin the settings; not for clients.
--
-- priority: that of its row; null: it has none, and its spec's counts. session_id, claimed_at, lease_id: of
-- the running attempt, if there is one.
--
-- It is small enough to be inlined into the calling statement, so it has neither settings nor rights of its
-- own. Index: task_pkey, bundle_task, span_pkey, attempt_pkey.
create or replace function taskq.task_state(p_campaign bigint, p_task bigint)
returns table (
    status taskq.task_status,
    priority smallint,
    attempt integer,
    failures smallint,
    losses smallint,
    due_at timestamptz,
    claimed_at timestamptz,
    session_id bigint,
    lease_id uuid
)
language sql stable
as $$
    select coalesce(t.status, b.status, n.status, a.status), t.priority,
           coalesce(t.attempt, b.attempt, a.attempt, 0),
           coalesce(t.failures, a.failures, 0::smallint),
           coalesce(t.losses, a.losses, 0::smallint),
           case when t.status = 'delayed' then t.due_at end,
           case when t.status = 'working' then t.claimed_at else b.claimed_at end,
           case when t.status = 'working' then t.session_id else b.session_id end,
           case when t.status = 'working' then t.lease_id else b.lease_id end
      from (values (true)) as one (row)
      left join lateral taskq.task_of(p_campaign, p_task) t on true
      left join lateral (
         select 'working'::taskq.task_status as status, 1 as attempt, b.claimed_at, b.session_id,
                b.lease_id
           from taskq.bundle_of(p_campaign, p_task) b
     ) b on t.status is null
      left join lateral taskq.span_of(p_campaign, p_task) n on t.status is null and b.status is null
      left join lateral (
         select max(a.attempt) as attempt,
                (count(*) filter (where a.outcome = 'failed'))::smallint as failures,
                (count(*) filter (where taskq.is_loss(a.outcome, a.error_class)))::smallint as losses,
                case when bool_or(a.outcome = 'done') then 'done'::taskq.task_status end as status
           from taskq.attempt a
          where a.campaign_id = p_campaign
            and a.task_id = p_task
     ) a on t.status is null and b.status is null and n.status is null
$$;
