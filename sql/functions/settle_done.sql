-- settle_done(campaign, reports): settles reports that are all successes, as most are. A part of
-- settle(), which settles the others; not for clients.
--
-- accepted: the positions of the reports by which an attempt ended, in no order; null if there are
--     none, or if something else than a success is reported, or two on one task.
--
-- Locks: the rows of the tasks, in the order of task_id, and none that is left to settle(), which would
-- lock it after later ones. Index: task_pkey; see settle() for why nothing else can be used. Two
-- statements, where settle() needs three that do more each: that saves a tenth of an exchange for eight.
--
-- The reports are sorted by task, so that width_bucket() finds the one on a task by binary search; the
-- linear search of array_position() takes a twentieth of an exchange for 256. A cheap test that nearly
-- always decides who may report precedes may_report(), which is called for each task.
create or replace function taskq.settle_done(
    p_campaign bigint,
    p_reports jsonb,
    out accepted bigint[]
)
language plpgsql
as $$
declare
    v_now constant timestamptz := clock_timestamp();
    v_tasks bigint[];
    v_leases uuid[];
    v_sessions bigint[];
    v_ords integer[];
    v_ordinary boolean;
    v_covering bigint[];
begin
    select array_agg(r.task), array_agg(r.lease), array_agg(r.session), array_agg(r.ord),
           bool_and(coalesce(r.outcome = 'done' and r.task is not null, false))
      into v_tasks, v_leases, v_sessions, v_ords, v_ordinary
      from (
          select (r.report ->> 'task')::bigint as task, (r.report ->> 'lease')::uuid as lease,
                 (r.report ->> 'session')::bigint as session, r.report ->> 'outcome' as outcome,
                 r.ord::integer as ord
            from jsonb_array_elements(p_reports) with ordinality as r (report, ord)
           order by task
      ) r;
    if v_ordinary is not true
       or cardinality(v_tasks) > 1
          and (select count(distinct t.task) < count(*) from unnest(v_tasks) as t (task))
    then
        return;
    end if;
    -- Who may report on what was leased ahead; see covers(), here for all at once.
    if v_sessions[1] is not null and exists (select from taskq.front f where f.epoch > 0) then
        v_covering := array(
            select s.session_id
              from taskq.session s, taskq.campaign c
             where s.session_id = any (v_sessions)
               and s.ended_at is null
               and c.campaign_id = p_campaign
               and s.campaign_id = any (c.lineage));
    end if;

    with ended as (
        update taskq.task t
           set status = 'done'
         where t.campaign_id = p_campaign
           and t.task_id = any (v_tasks)
           and t.lease_id = v_leases[width_bucket(t.task_id, v_tasks)]
           and (t.session_id
                = coalesce(v_sessions[width_bucket(t.task_id, v_tasks)], t.session_id)
                or t.session_id = 0
                and v_sessions[width_bucket(t.task_id, v_tasks)] = any (v_covering)
                or taskq.may_report(
                    v_sessions[width_bucket(t.task_id, v_tasks)], t.session_id, p_campaign))
           and t.status::text = 'working'
     returning t.task_id, t.attempt, t.lease_id, t.session_id, t.claimed_at,
               v_ords[width_bucket(t.task_id, v_tasks)] as ord
    ), recorded as (
        insert into taskq.attempt (
               campaign_id, task_id, attempt, exit_code, lease_id, session_id, claimed_at,
               ended_at, outcome, error_class, error, result, phases, tail)
        select p_campaign, e.task_id, e.attempt, (r.report ->> 'exit_code')::integer, e.lease_id,
               case when e.session_id = 0
                    then coalesce((r.report ->> 'session')::bigint, (r.report ->> 'by')::bigint, 0)
                    else e.session_id end,
               e.claimed_at, v_now, 'done', null,
               r.report ->> 'error', r.report -> 'result', r.report -> 'phases',
               r.report ->> 'tail'
          from ended e
          cross join lateral (
              select p_reports -> (e.ord - 1) as report
              offset 0
          ) r
    )
    select array_agg(e.ord) into accepted from ended e;
end
$$;
