-- settle(campaign, reports): settles reports on attempts. A part of exchange(), which pins the
-- settings and records the moves; not for clients.
--
-- reports: a JSON array of objects with task, lease, outcome (done | failed | released), and
--     optional result, retry, started, refused, error_class, error, exit_code, tail, phases, recipe, session, by.
--     session: the session that reports, with its rights, see may_report(); a gateway sets it.
--     by: the same without a check of rights; a direct agent sets it.
--     A task leased ahead (session 0, see lease_ahead()) is recorded as the reporting session's.
--     A success gets no class of error: with one it would look like a salvaged success.
--     refused: for a release: the node cannot run such tasks, see note_refusals().
--     A failure of a class that the campaign never retries is final, whatever `retry` says.
-- acks: a verdict for each report, in order; of two on the same attempt the first counts:
--     accepted     the attempt ends as reported; or it had been given up as lost and is salvaged,
--                  after all reports that came in time, see salvage();
--     duplicate    the same report on this attempt was accepted before;
--     superseded   the lease is no longer the task's: expired, released, cancelled, handed on;
--     unknown      no such task, or none that the session may report on.
-- ended: how many tasks are no longer working; first_failures: failures of first attempts; the
--     others: what to add to the counts. Salvaged reports are not included: salvage() records
--     them.
--
-- Locks: the bundles of the tasks, see unpack(), and then the rows of the fenced tasks, in the order of task_id; if
-- one may be salvaged, the rows of all tasks, see lock_late(). Index: task_pkey.
--
-- The fence is tested where the row is locked, in a lateral sub-select that can only be a look-up
-- by key. A statement that may use the index over working tasks is planned by their share, about which statistics are
-- always wrong: one such statement walked all of them for a report on three. So the status is compared as text, which
-- no partial index answers. The rows are then changed where they were found, by ctid, in a
-- statement of its own: nobody can move a row that we have locked, and servers before 17 might go through all
-- rows of the campaign to find several ids. Several small statements are faster here than one large: most of
-- the time of a statement on few rows is spent in setting it up, and the rarer moves are skipped.
create or replace function taskq.settle(
    p_campaign bigint,
    p_reports jsonb,
    out acks text[],
    out waiting integer,
    out delayed integer,
    out ended integer,
    out done integer,
    out failed integer,
    out cancelled integer,
    out failures integer,
    out first_failures integer
)
language plpgsql
as $$
declare
    -- First, so that no attempt ends before its transaction has a number; see sum_ends().
    v_xid constant xid8 := pg_current_xact_id();
    v_now constant timestamptz := clock_timestamp();
    v_accepted bigint[];
    -- Places of locked rows, see above.
    v_done tid[];
    v_failed tid[];
    v_hopeless tid[];
    v_released tid[];
    v_unstarted tid[];
    v_refused bigint[];
    v_back taskq.task_status;
    v_jitter double precision;
    v_tasks bigint[];
    v_leases uuid[];
    v_salvages boolean;
    v_never_retry text[];
begin
    select c.late_results = 'salvage', c.never_retry
      into v_salvages, v_never_retry
      from taskq.campaign c
     where c.campaign_id = p_campaign;
    if v_salvages then
        perform taskq.lock_late(p_campaign, p_reports);
    end if;
    v_accepted := coalesce(taskq.settle_done(p_campaign, p_reports), '{}');
    if cardinality(v_accepted) = jsonb_array_length(p_reports) then
        acks := array_fill('accepted'::text, array[cardinality(v_accepted)]);
        waiting := 0;
        delayed := 0;
        ended := cardinality(v_accepted);
        done := ended;
        failed := 0;
        cancelled := 0;
        failures := 0;
        first_failures := 0;
        return;
    end if;

    if p_reports @> '[{"outcome": "released", "error_class": "out-of-time"}]'
       or p_reports @> '[{"outcome": "released", "error_class": "continued"}]'
    then
        p_reports := taskq.too_long(p_campaign, p_reports);
    end if;

    -- Tasks that are still in a bundle are another session's, or have not succeeded.
    select array_agg(r.task), array_agg(r.lease)
      into v_tasks, v_leases
      from rows from (
               jsonb_to_recordset(p_reports) as (task bigint, lease uuid)
           ) with ordinality as r (task, lease, ord)
     where r.ord <> all (v_accepted);
    if not taskq.unpack(p_campaign, v_tasks, v_leases, v_accepted = '{}') then
        -- Waiting for it while holding others might deadlock.
        raise exception 'a report on these tasks is under way; repeat it' using errcode = '55P03';
    end if;

    with held as materialized (
        select h.*, h.outcome = 'released' and not coalesce(h.started, true) as unstarted
          from (
              -- The first of the reports from sessions that may report, not the first report.
              select distinct on (r.task, r.lease)
                     r.*, t.row_id, t.attempt, t.session_id, t.claimed_at
                from (
                    select r.*
                      from rows from (
                               jsonb_to_recordset(p_reports) as (
                                   task bigint, lease uuid, session bigint, by bigint,
                                   outcome taskq.attempt_outcome, retry boolean,
                                   started boolean, error_class text, error text,
                                   exit_code integer, result jsonb, phases jsonb, tail text,
                                   refused boolean, recipe integer)
                           ) with ordinality as r (
                               task, lease, session, by, outcome, retry, started, error_class,
                               error, exit_code, result, phases, tail, refused, recipe, ord)
                     where r.ord <> all (v_accepted)
                     order by r.task, r.lease, r.ord
                    offset 0
                ) r
                cross join lateral (
                    select t.ctid as row_id, t.attempt, t.session_id, t.claimed_at
                      from taskq.task t
                     where t.campaign_id = p_campaign
                       and t.task_id = r.task
                       and t.lease_id = r.lease
                       and t.status::text = 'working'
                       and (r.session is null
                            or r.session = t.session_id
                            or taskq.may_report(r.session, t.session_id, p_campaign))
                       for no key update
                ) t
               order by r.task, r.lease, r.ord
          ) h
         where h.outcome in ('done', 'failed', 'released')
    ), recorded as (
        insert into taskq.attempt (
               campaign_id, task_id, attempt, exit_code, lease_id, session_id, claimed_at,
               ended_at, outcome, error_class, error, result, phases, tail, refused, recipe)
        select p_campaign, h.task, h.attempt, h.exit_code, h.lease,
               case when h.session_id = 0
                    then coalesce(h.session, h.by, 0)
                    else h.session_id end,
               h.claimed_at,
               v_now, h.outcome, case when h.outcome <> 'done' then h.error_class end, h.error,
               h.result, h.phases, h.tail, nullif(h.outcome = 'released' and h.refused, false), h.recipe
          from held h
         where not h.unstarted
    )
    select v_accepted || array_agg(h.ord),
           array_agg(h.row_id) filter (where h.outcome = 'done'),
           array_agg(h.row_id) filter (where h.outcome = 'failed'),
           array_agg(h.row_id) filter (
               where h.outcome = 'failed'
                 and (not h.retry or h.error_class = any (v_never_retry))),
           array_agg(h.row_id) filter (where h.outcome = 'released'),
           array_agg(h.row_id) filter (where h.unstarted),
           array_agg(h.task) filter (
               where h.outcome = 'released' and h.refused and not h.unstarted),
           cardinality(v_accepted) + count(*),
           cardinality(v_accepted) + count(*) filter (where h.outcome = 'done'),
           count(*) filter (where h.outcome = 'failed'),
           count(*) filter (where h.outcome = 'failed' and h.attempt = 1),
           0, 0, 0, 0
      into v_accepted, v_done, v_failed, v_hopeless, v_released, v_unstarted,
           v_refused, ended, done, failures, first_failures, waiting, delayed, failed, cancelled
      from held h;

    if v_done is not null then
        delete from taskq.task t
         where t.ctid = any (v_done);
    end if;

    if failures > 0 then
        v_back := taskq.status_after(p_campaign, 'delayed');
        v_jitter := 0.75 + 0.5 * random();
        with moved as (
            update taskq.task t
               set status = case
                       when t.ctid = any (coalesce(v_hopeless, '{}'))
                            or t.failures + 1 >= c.max_attempts
                       then 'failed'
                       else v_back
                   end,
                   due_at = v_now + make_interval(secs => v_jitter * least(
                       c.backoff_max_s, c.backoff_s * 2.0 ^ least(t.failures, 60))),
                   failures = t.failures + 1,
                   -- For a task that was leased ahead, this is the session that reports.
                   avoids = taskq.avoiding(t.avoids, (
                       select a.session_id
                         from taskq.attempt a
                        where a.campaign_id = p_campaign
                          and a.task_id = t.task_id
                          and a.attempt = t.attempt)),
                   -- An agent has had it, so the front has not lost it: see expire_ahead().
                   session_id = nullif(t.session_id, 0)
              from taskq.campaign c
             where t.ctid = any (v_failed)
               and c.campaign_id = p_campaign
         returning t.status
        )
        select count(*) filter (where m.status = 'delayed'),
               count(*) filter (where m.status = 'failed'),
               count(*) filter (where m.status = 'cancelled')
          into delayed, failed, cancelled
          from moved m;
    end if;

    if v_released is not null then
        v_back := taskq.status_after(p_campaign, 'waiting');
        update taskq.task t
           set status = v_back,
               attempt = t.attempt - (t.ctid = any (coalesce(v_unstarted, '{}')))::integer,
               session_id = case when t.ctid = any (coalesce(v_unstarted, '{}'))
                                 then t.session_id else nullif(t.session_id, 0) end
         where t.ctid = any (v_released);
        if v_refused is not null then
            perform taskq.note_refusals(p_campaign, v_refused);
        end if;
        if v_back = 'waiting' then
            waiting := cardinality(v_released);
        else
            cancelled := cancelled + cardinality(v_released);
        end if;
    end if;

    if ended = jsonb_array_length(p_reports) then
        acks := array_fill('accepted'::text, array[ended]);
        return;
    end if;
    if v_salvages then
        v_accepted := v_accepted
            || taskq.salvage(p_campaign, p_reports, coalesce(v_accepted, '{}'));
    end if;

    select array_agg(
               case
                   when r.ord = any (v_accepted) then 'accepted'
                   when not taskq.may_report(
                            r.session, taskq.session_of_lease(p_campaign, r.task, r.lease), p_campaign)
                   then 'unknown'
                   when exists (
                       select from taskq.attempt a
                        where a.campaign_id = p_campaign
                          and a.task_id = r.task
                          and a.lease_id = r.lease
                          and (a.outcome = r.outcome
                               or r.outcome = 'done' and a.outcome = 'withdrawn')) then 'duplicate'
                   when (select true from taskq.spec_of(p_campaign, r.task)) then 'superseded'
                   else 'unknown'
               end
               order by r.ord)
      into acks
      from rows from (
               jsonb_to_recordset(p_reports) as (
                   task bigint, lease uuid, session bigint, outcome taskq.attempt_outcome)
           ) with ordinality as r (task, lease, session, outcome, ord);
end
$$;
