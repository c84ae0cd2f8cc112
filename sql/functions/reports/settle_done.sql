-- settle_done(campaign, reports): settles the successes among some reports: those on tasks that are in a
-- bundle of the session that reports, and, if all are successes, as most are, those on tasks that have a
-- row. A part of settle(), which settles the others; not for clients.
--
-- accepted: the positions of the reports by which an attempt ended, in no order; null if there are
--     none, or if two are on one task.
--
-- Locks: the bundles of the reporting sessions, in the order of their key; then the rows of the tasks, in
-- the order of task_id, and none that is left to settle(), which would lock it after later ones.
-- Index: bundle_pkey, task_pkey; see settle() for why nothing else can be used.
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
    v_owners bigint[];
    v_ords integer[];
    v_all boolean;
    v_twice boolean;
    v_covering bigint[];
begin
    select array_agg(r.task) filter (where r.done), array_agg(r.lease) filter (where r.done),
           array_agg(r.session) filter (where r.done), array_agg(r.owner) filter (where r.done),
           array_agg(r.ord) filter (where r.done), bool_and(r.done),
           count(*) > 1 and count(distinct r.task) < count(*)
      into v_tasks, v_leases, v_sessions, v_owners, v_ords, v_all, v_twice
      from (
          select (r.report ->> 'task')::bigint as task, (r.report ->> 'lease')::uuid as lease,
                 (r.report ->> 'session')::bigint as session,
                 coalesce(r.report ->> 'session', r.report ->> 'by')::bigint as owner,
                 coalesce(r.report ->> 'outcome' = 'done' and r.report ->> 'task' is not null, false)
                     as done,
                 r.ord::integer as ord
            from jsonb_array_elements(p_reports) with ordinality as r (report, ord)
           order by task
      ) r;
    if v_twice or v_tasks is null then
        return;
    end if;

    -- Tasks that were claimed one by one have rows; then the rest would do nothing.
    if exists (
           select from unnest(v_owners, v_leases) as c (owner, lease)
            cross join lateral (
                  select from taskq.bundle b
                   where b.session_id = c.owner
                     and b.lease_id = c.lease
                  offset 0) b)
    then
        with held as materialized (
            select b.session_id, b.lease_id, b.first_id, b.claimed_at, b.tasks
              from (select distinct c.owner, c.lease
                      from unnest(v_owners, v_leases) as c (owner, lease)
                     order by c.owner, c.lease) c
             cross join lateral (
                   select b.session_id, b.lease_id, b.first_id, b.claimed_at, b.tasks
                     from taskq.bundle b
                    where b.session_id = c.owner
                      and b.lease_id = c.lease
                      and b.campaign_id is not distinct from p_campaign  -- see beat()
                    order by b.session_id, b.lease_id, b.first_id
                      for no key update) b
        ), ended as materialized (
            select h.session_id, h.lease_id, h.first_id, h.claimed_at, t.task_id, v_ords[r.place] as ord
              from held h
             cross join lateral unnest(h.tasks) as t (task_id)
             cross join lateral (
                   select width_bucket(t.task_id, v_tasks) as place offset 0) r
             where v_tasks[r.place] = t.task_id
               and v_leases[r.place] = h.lease_id
               and v_owners[r.place] = h.session_id
        ), rest as materialized (
            select h.session_id, h.lease_id, h.first_id,
                   array(select t.task_id
                           from unnest(h.tasks) as t (task_id)
                          where t.task_id not in (select e.task_id from ended e)
                          order by 1) as tasks
              from held h
        ), emptied as (
            delete from taskq.bundle b
             using rest r
             where r.tasks = '{}'
               and b.session_id = r.session_id
               and b.lease_id = r.lease_id
               and b.first_id = r.first_id
        ), shrunk as (
            update taskq.bundle b
               set tasks = r.tasks
              from rest r
             where r.tasks <> '{}'
               and cardinality(b.tasks) > cardinality(r.tasks)
               and b.session_id = r.session_id
               and b.lease_id = r.lease_id
               and b.first_id = r.first_id
        ), recorded as (
            insert into taskq.attempt (
                   campaign_id, task_id, attempt, exit_code, lease_id, session_id, claimed_at,
                   ended_at, outcome, error_class, error, result, phases, tail, recipe)
            select p_campaign, e.task_id, 1, (r.report ->> 'exit_code')::integer, e.lease_id,
                   e.session_id, e.claimed_at, v_now, 'done', null,
                   r.report ->> 'error', r.report -> 'result', r.report -> 'phases',
                   r.report ->> 'tail', (r.report ->> 'recipe')::integer
              from ended e
              cross join lateral (
                  select p_reports -> (e.ord - 1) as report
                  offset 0
              ) r
        )
        select array_agg(e.ord) into accepted from ended e;
    end if;
    if not v_all or cardinality(accepted) = cardinality(v_tasks) then
        return;
    end if;

    -- Who may report on what was leased ahead; see session_serves(), here for all at once.
    if v_sessions[1] is not null and exists (select from taskq.front f where f.epoch > 0) then
        v_covering := array(
            select s.session_id
              from taskq.session s, taskq.campaign c
             where s.session_id = any (v_sessions)
               and s.ended_at is null
               and c.campaign_id = p_campaign
               and s.campaign_id = any (c.lineage));
    end if;
    with held as materialized (
        select t.*, u.ord
          from unnest(v_tasks, v_leases, v_sessions, v_ords) as u (task_id, lease_id, session_id, ord)
         cross join lateral (
               select t.ctid as row_id, t.task_id, t.attempt, t.lease_id, t.session_id, t.claimed_at
                 from taskq.task t
                where t.campaign_id = p_campaign
                  and t.task_id = u.task_id
                  and t.lease_id = u.lease_id
                  and t.status::text = 'working'
                  and (t.session_id = coalesce(u.session_id, t.session_id)
                       or t.session_id = 0 and u.session_id = any (v_covering)
                       or taskq.may_report(u.session_id, t.session_id, p_campaign))
                  for no key update) t
    ), ended as (
        -- A row that was changed while we waited for its lock is not seen here: settle() finds it.
        delete from taskq.task t
         using held h
         where t.ctid = h.row_id
     returning h.*
    ), recorded as (
        insert into taskq.attempt (
               campaign_id, task_id, attempt, exit_code, lease_id, session_id, claimed_at,
               ended_at, outcome, error_class, error, result, phases, tail, recipe)
        select p_campaign, e.task_id, e.attempt, (r.report ->> 'exit_code')::integer, e.lease_id,
               case when e.session_id = 0
                    then coalesce((r.report ->> 'session')::bigint, (r.report ->> 'by')::bigint, 0)
                    else e.session_id end,
               e.claimed_at, v_now, 'done', null,
               r.report ->> 'error', r.report -> 'result', r.report -> 'phases',
               r.report ->> 'tail', (r.report ->> 'recipe')::integer
          from ended e
          cross join lateral (
              select p_reports -> (e.ord - 1) as report
              offset 0
          ) r
    )
    select accepted || array_agg(e.ord) into accepted from ended e;
end
$$;
