-- take(campaign, sessions, leases, wants, freed): claims waiting tasks for one or several agents. A
-- part of exchange(), which pins the settings and records the moves; not for clients.
--
-- sessions, leases, wants: one element for each claim: who claims, under which new lease id, how
--     many tasks (0 to 1000). Each session once.
-- freed: how many tasks this transaction has ended without having recorded it.
-- tasks: JSON array of [lease, task, attempt, key, payload, session], or null where there is none.
--     Each claim gets the highest priority and first seeded of what the claims before it left. A
--     claim that was answered before (its lease is known) gets the same tasks again. Two sessions
--     may claim under one lease id: the session tells whose a task is.
-- taken: how many tasks moved from waiting to working.
-- refused: the sessions that have ended, or null; they get nothing.
-- revision: the campaign's.
-- spent: the sessions that were to get a task which had had their lease before, see below; or null.
--     That they got none does not mean that nothing waits.
-- avoided: the sessions for which tasks wait that they must not have yet, see avoided(), where somebody
--     got less than it wanted; or null. Nor does it mean that for those of them which got none.
-- Error TQ400: a claim wants too much.
--
-- If nothing is taken, all waiting tasks were locked at this moment, as many run as the campaign allows,
-- or the agent does not offer what it requires.
--
-- No task is taken under a lease that it had before: a claim that comes so late, because a gateway
-- hung, is no longer waited for, and reports on the old attempt would count for the new one.
--
-- Locks: the rows of the taken tasks, skipping locked ones. Index: task_waiting,
-- attempt_pkey. Claims of a campaign that limits how many run wait for each other, see room().
--
-- Tasks that have failed before wait in an index of their own, which is searched at intervals: see
-- pick_again(), which checks on which hosts they may run.
--
-- Three things make this fast, and keep it so:
--
-- 1. The rows are locked first, and exactly those are updated, by key. With
--    `where task_id in (select ... limit n for update skip locked)` the planner may run the
--    sub-select again for each row, and take more than n.
--
-- 2. It starts behind the last claim, see pick().
--
-- 3. Nothing but the task rows is written.
create or replace function taskq.take(
    p_campaign bigint,
    p_sessions bigint[],
    p_leases uuid[],
    p_wants integer[],
    p_freed integer,
    out tasks json,
    out taken integer,
    out refused bigint[],
    out revision integer,
    out spent bigint[],
    out avoided bigint[]
)
language plpgsql
as $$
declare
    v_now timestamptz;
    v_picked record;
    v_both record;
    v_wanted integer;
    v_open boolean;
    v_requires text[];
    v_limit integer;
    v_ordinary boolean;
    v_alone boolean;
    v_sessions bigint[];
    v_leases uuid[];
    v_tasks bigint[];
    v_again json;
begin
    taken := 0;
    if 0 > any (p_wants) or 1000 < any (p_wants) then
        raise exception 'a claim is for 0 to 1000 tasks' using errcode = 'TQ400';
    end if;

    select not exists (
               select from taskq.campaign a
                where a.campaign_id = any (c.lineage)
                  and a.status <> 'open'),
           c.revision, c.requires, c.max_running,
           c.requires = '{}'
           and (select count(*)
              from taskq.session s
             where s.session_id = any (p_sessions)
               and s.ended_at is null) = cardinality(p_sessions)
           -- Pair by pair: with two arrays, servers before 17 look through all that a session has.
           and not exists (
               select from unnest(p_sessions, p_leases) as c (session_id, lease_id)
                cross join lateral (
                    select from taskq.task t
                     where t.session_id = c.session_id
                       and t.lease_id = c.lease_id
                       and t.status = 'working'
                    offset 0
                ) t)
      into v_open, revision, v_requires, v_limit, v_ordinary
      from taskq.campaign c
     where c.campaign_id = p_campaign;

    if v_ordinary is not true then
        select s.refused, s.again, s.sessions, s.leases, s.wants
          into refused, v_again, p_sessions, p_leases, p_wants
          from taskq.sort_claims(p_campaign, v_requires, p_sessions, p_leases, p_wants) s;
        tasks := v_again;
    end if;
    if v_open is not true or p_wants is null then
        return;
    end if;
    -- One element for each task wanted: the n-th task found goes to the n-th element.
    v_alone := cardinality(p_wants) = 1;
    if v_alone then
        v_leases := array_fill(p_leases[1], p_wants);
    elsif 1 = all (p_wants) then
        v_sessions := p_sessions;
        v_leases := p_leases;
    else
        select array_agg(c.session_id order by c.ord), array_agg(c.lease_id order by c.ord)
          into v_sessions, v_leases
          from unnest(p_sessions, p_leases, p_wants)
               with ordinality as c (session_id, lease_id, want, ord)
          cross join lateral generate_series(1, c.want);
    end if;
    if v_limit is not null then
        v_leases := v_leases[1 : taskq.room(p_campaign, v_limit, p_freed)];
    end if;

    v_wanted := cardinality(v_leases);
    v_picked := taskq.pick(p_campaign, v_wanted);
    v_tasks := v_picked.tasks;
    if v_picked.again then
        if v_alone then
            v_sessions := array_fill(p_sessions[1], array[v_wanted]);
        end if;
        v_both := taskq.pick_again(
            p_campaign, v_sessions[1 : v_wanted], v_wanted, v_tasks, v_picked.ranks);
        if v_both.tasks is not null then
            v_tasks := v_both.tasks;
            select array_agg(v_sessions[p.place] order by p.ord),
                   array_agg(v_leases[p.place] order by p.ord)
              into v_sessions, v_leases
              from unnest(v_both.places) with ordinality as p (place, ord);
        end if;
        if v_wanted > coalesce(cardinality(v_tasks), 0) then
            avoided := taskq.avoided(p_campaign, p_sessions);
        end if;
    end if;
    if v_tasks is null then
        return;
    end if;
    -- Behind the locks: an attempt begins after that before it has ended.
    v_now := clock_timestamp();

    with moved as (
        update taskq.task t
           set status = 'working',
               lease_id = case
                   when v_alone then p_leases[1]
                   else v_leases[array_position(v_tasks, t.task_id)]
               end,
               session_id = case
                   when v_alone then p_sessions[1]
                   else v_sessions[array_position(v_tasks, t.task_id)]
               end,
               claimed_at = v_now,
               attempt = t.attempt + 1
         where t.campaign_id = p_campaign
           and t.task_id = any (v_tasks)
           and (t.attempt = 0
                or (select count(*)
                      from taskq.attempt a
                     where a.campaign_id = p_campaign
                       and a.task_id = t.task_id
                       and a.lease_id = case
                           when v_alone then p_leases[1]
                           else v_leases[array_position(v_tasks, t.task_id)]
                       end) = 0)
     returning t.task_id, t.lease_id, t.attempt, t.session_id
    )
    select json_agg(
               json_build_array(
                   m.lease_id, m.task_id, m.attempt, s.key, s.payload, m.session_id)),
           count(*)
      into tasks, taken
      from moved m
      cross join lateral (
          select s.key, s.payload
            from taskq.spec s
           where s.campaign_id = p_campaign
             and s.task_id >= m.task_id
             and s.task_id <= m.task_id
           order by s.campaign_id, s.task_id
           limit 1
      ) s;

    if taken < cardinality(v_tasks) then
        select array_agg(distinct case when v_alone then p_sessions[1] else v_sessions[p.ord] end)
          into spent
          from unnest(v_tasks) with ordinality as p (task_id, ord)
         where p.task_id not in (
                   select (m.task ->> 1)::bigint
                     from json_array_elements(tasks) as m (task));
    end if;
    if v_again is not null then
        select json_agg(a.task)
          into tasks
          from (
              select json_array_elements(tasks) as task
               union all
              select json_array_elements(v_again)
          ) a;
    end if;
end
$$;
