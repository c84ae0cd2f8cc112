-- salvage(campaign, reports, settled): takes in successes of attempts that were given up as lost, or hedged,
-- in a campaign that salvages late results. A part of settle(), which has taken in the reports in time; not
-- for clients.
--
-- reports: as settle() takes them. settled: the positions of those that are accepted already.
-- salvaged: the positions of the reports that are accepted now, or null. Of several reports on one task the
--     first counts.
--
-- The lost attempt becomes done, with its result; its class of error stays and shows that it was
-- lost: no other success has such a class. It still counts as a loss. A hedged attempt becomes done in the
-- same way, and was not a loss. The running attempt of the task, if there is one, ends as cancelled, with the
-- class `salvaged`; its agent gets the order with its next heartbeat. A task that was leased ahead and not
-- named had no attempt.
--
-- A session whose token was revoked salvages nothing: its rights ended with the token, although it
-- still gets verdicts on its reports.
--
-- Locks: the key of the campaign's row, shared: begin_archive() waits, and hedges go on; the row of `summed`; the rows
-- of the tasks, in the order of task_id. settle() has locked them before any other. If a task was given up only since
-- then, and somebody else has locked it, the call ends with error 55P03, and is to be repeated: waiting here might
-- deadlock.
-- Index: session_pkey, attempt_pkey, task_pkey; see settle() for why nothing else can be used.
create or replace function taskq.salvage(
    p_campaign bigint,
    p_reports jsonb,
    p_settled bigint[],
    out salvaged bigint[]
)
language plpgsql
as $$
declare
    v_now timestamptz;
    v_ords bigint[];
    v_tasks bigint[];
    v_attempts integer[];
    v_report jsonb;
    v_summed timestamptz;
    v_ends taskq.ends[] := '{}';
begin
    select array_agg(r.ord), array_agg(r.task)
      into v_ords, v_tasks
      from rows from (
               jsonb_to_recordset(p_reports) as (
                   task bigint, lease uuid, session bigint, outcome taskq.attempt_outcome)
           ) with ordinality as r (task, lease, session, outcome, ord)
      cross join lateral (
          select (select a.session_id
                    from taskq.attempt a
                   where a.campaign_id = p_campaign
                     and a.task_id = r.task
                     and a.attempt = taskq.salvageable(p_campaign, r.task, r.lease)) as session_id
          offset 0
      ) a
     where r.outcome = 'done'
       and r.ord <> all (p_settled)
       and a.session_id is not null
       and taskq.may_report(r.session, a.session_id, p_campaign)
       and not coalesce(
               (select k.revoked_at is not null
                  from taskq.session s, taskq.token k
                 where s.session_id = r.session
                   and k.token_id = s.token_id),
               false);
    if v_ords is null then
        return;
    end if;
    -- Either the archive waits for this, or this sees below that there is one, see begin_archive().
    perform from taskq.campaign c where c.campaign_id = p_campaign for key share;
    perform
       from (select distinct u.task_id from unnest(v_tasks) as u (task_id) order by u.task_id) u
      cross join lateral (
            select
              from taskq.task t
             where t.campaign_id = p_campaign
               and t.task_id = u.task_id
               for no key update nowait) t;

    -- The state of the tasks counts as it is now that nobody else can move them; by ctid, see settle().
    v_now := clock_timestamp();
    with late as materialized (
        select distinct on (r.task) r.*, a.attempt, t.row_id, t.status, t.session_id, t.lease_id,
               t.claimed_at, t.attempt as last
          from (
              select o.ord, p_reports -> (o.ord - 1)::integer as report,
                     (p_reports -> (o.ord - 1)::integer ->> 'task')::bigint as task
                from unnest(v_ords) as o (ord)
              offset 0
          ) r
          cross join lateral (
              select taskq.salvageable(
                         p_campaign, r.task, (r.report ->> 'lease')::uuid) as attempt
              offset 0
          ) a
          cross join lateral (
              select t.ctid as row_id, t.status, t.session_id, t.lease_id, t.claimed_at, t.attempt
                from taskq.task t
               where t.campaign_id = p_campaign
                 and t.task_id = r.task
              offset 0
          ) t
         where a.attempt is not null
         order by r.task, r.ord
    ), overtaken as (
        insert into taskq.attempt (
               campaign_id, task_id, attempt, lease_id, session_id, claimed_at, ended_at, outcome,
               error_class)
        select p_campaign, l.task, l.last, l.lease_id, l.session_id, l.claimed_at, v_now,
               'cancelled', 'salvaged'
          from late l
         where l.status = 'working'
           and l.session_id <> 0
    ), ended as (
        delete from taskq.task t
         using late l
         where t.ctid = l.row_id
    ), counted as (
        insert into taskq.delta (
               campaign_id, waiting, delayed, working, done, failed)
        select p_campaign,
               -count(*) filter (where l.status = 'waiting'),
               -count(*) filter (where l.status = 'delayed'),
               -count(*) filter (where l.status = 'working'),
               count(*),
               -count(*) filter (where l.status = 'failed')
          from late l
        having count(*) > 0
    )
    select array_agg(l.ord), array_agg(l.task), array_agg(l.attempt)
      into salvaged, v_tasks, v_attempts
      from late l;

    -- One by one, each by its whole key: before PostgreSQL 17 an array of tasks may be no more than a
    -- filter over all attempts of the campaign.
    select s.until into v_summed from taskq.summed s where s.only_one for share;
    for i in 1 .. coalesce(cardinality(salvaged), 0) loop
        v_report := p_reports -> (salvaged[i] - 1)::integer;
        -- It ends anew, and is summed then.
        v_ends := v_ends || array(
            select taskq.end_of_attempt(a, -1)
              from taskq.attempt a
             where a.campaign_id = p_campaign
               and a.task_id = v_tasks[i]
               and a.attempt = v_attempts[i]
               and a.ended_at < v_summed);
        update taskq.attempt a
           set outcome = 'done',
               ended_at = v_now,
               exit_code = (v_report ->> 'exit_code')::integer,
               result = v_report -> 'result',
               phases = v_report -> 'phases',
               tail = v_report ->> 'tail',
               recipe = (v_report ->> 'recipe')::integer
         where a.campaign_id = p_campaign
           and a.task_id = v_tasks[i]
           and a.attempt = v_attempts[i];
    end loop;
    if v_ends <> '{}' then
        perform taskq.add_ends(v_ends);
    end if;
end
$$;
