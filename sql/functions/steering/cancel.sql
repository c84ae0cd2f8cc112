-- cancel(campaign, tasks, after, limit, begun): cancels tasks that are not final, in the order of their ids.
--
-- tasks: these; null: all. after: the `last` of the call before, 0 at first.
-- limit: of tasks in a call; if all tasks are to be cancelled, a span counts as one.
-- begun: false leaves out tasks that an agent has; only for given tasks.
-- moved: how many were cancelled; last: the id to go on after, null when there is no more.
-- A running attempt ends as cancelled; its agent gets the order at the next heartbeat. Damaged rows do
-- not fail the call: a working task without a session is not an attempt, and recorded attempts stay.
--
-- Locks: the spans that the tasks are in, see unspan() and move_spans(), then the bundles, then the rows of the
-- tasks, in the order of task_id; waits for them. A call for all tasks first takes the campaign's lock of
-- seed_begin(): then all seeds and retries under way have seen set_status(), so nothing is left behind. Index:
-- task_pkey.
--
-- Planned at each call: a generic plan would scan the campaign to cancel a single task.
-- @roles manager operator
-- @gateway manager
-- @repeat once
-- @act cancel
-- @plan custom by-key
create or replace function taskq.cancel(
    p_campaign bigint,
    p_tasks bigint[],
    p_after bigint,
    p_limit integer,
    p_begun boolean default true,
    out moved integer,
    out last bigint
)
language plpgsql
as $$
declare
    v_rows tid[];
    v_in_spans integer := 0;
    v_upto bigint;
begin
    perform taskq.demand_read_committed();
    -- Spans come first: a claim under way holds its span until what it took is in a bundle.
    if p_tasks is null then
        perform pg_advisory_xact_lock(hashtext('taskq.seed'), hashint8(p_campaign));
        select m.moved, m.upto
          into v_in_spans, v_upto
          from taskq.move_spans(p_campaign, 'waiting', 'cancelled', p_after, p_limit) m;
    else
        perform taskq.unspan(p_campaign, p_tasks);
    end if;
    perform taskq.unpack(
        p_campaign,
        coalesce(
            p_tasks,
            array(select t.task_id
                    from taskq.bundle b
                   cross join lateral unnest(b.tasks) as t (task_id)
                   where b.campaign_id = p_campaign
                     and b.first_id > p_after)));
    if p_tasks is null then
        v_rows := array(
            select t.ctid
              from taskq.task t
             where t.campaign_id = p_campaign
               and t.task_id > p_after
               and t.status in ('waiting', 'delayed', 'working')
             order by t.campaign_id, t.task_id
             limit p_limit
               for no key update);
    else
        v_rows := array(
            select t.row_id
              from (select distinct u.task_id from unnest(p_tasks) as u (task_id) order by 1) u
             cross join lateral (
                   select t.ctid as row_id
                     from taskq.task t
                    where t.campaign_id = p_campaign
                      and t.task_id = u.task_id
                      and t.status::text in ('waiting', 'delayed', 'working')
                      and (p_begun or t.status <> 'working')
                      for no key update) t
             where u.task_id > p_after
             limit p_limit);
    end if;
    with pick as materialized (
        select t.task_id, t.status, t.attempt, t.lease_id, t.session_id, t.claimed_at
          from taskq.task t
         where t.ctid = any (v_rows)  -- see settle()
    ), recorded as (
        insert into taskq.attempt (
               campaign_id, task_id, attempt, lease_id, session_id, claimed_at, ended_at, outcome, phases)
        select p_campaign, p.task_id, p.attempt, p.lease_id, p.session_id, p.claimed_at, e.at, 'cancelled',
               taskq.share_s(count(*) over (partition by p.session_id),
                             (select s.slots from taskq.session s where s.session_id = p.session_id),
                             p.claimed_at, e.at)
          from pick p
         cross join lateral (select clock_timestamp() as at offset 0) e
         where p.status = 'working'
           and num_nulls(p.lease_id, p.claimed_at, nullif(p.session_id, 0)) = 0
            on conflict (campaign_id, task_id, attempt) do nothing
    ), changed as (
        update taskq.task t
           set status = 'cancelled',
               -- A task that was leased ahead and not named had no attempt.
               attempt = t.attempt - (
                   t.status = 'working'
                   and num_nulls(t.lease_id, t.claimed_at, nullif(t.session_id, 0)) > 0)::integer
         where t.ctid = any (v_rows)
    ), counted as (
        insert into taskq.delta (campaign_id, waiting, delayed, working, cancelled)
        select p_campaign,
               -v_in_spans - count(*) filter (where p.status = 'waiting'),
               -count(*) filter (where p.status = 'delayed'),
               -count(*) filter (where p.status = 'working'),
               v_in_spans + count(*)
          from pick p
        having v_in_spans + count(*) > 0
    )
    -- No id up to `last` is left behind, in spans or in rows.
    select v_in_spans + count(*), least(v_upto, case when count(*) = p_limit then max(p.task_id) end)
      into moved, last
      from pick p;
    perform taskq.note_move(p_campaign, 'cancel', moved);
end
$$;
