-- too_long(campaign, reports): turns releases of the classes `out-of-time` and `continued` into failures for
-- good where a task has had as many of them as its campaign allows, without progress: its agents'
-- allocations are too short for it. A part of settle(), which calls it only if there is such a release; not
-- for clients.
--
-- reports: as settle() takes them. Result: the same, in their order.
--
-- Counts the releases since the last attempt that made a new checkpoint, and since the task last failed as
-- too-long, so that an operator's retry gives it as many again. With its 10,000th attempt a task is too long
-- in any case. A repeated report is judged in the same way.
--
-- Reads only attempts that ended before that of the report, at most the last 2,000 of each task: the fence,
-- which settle() tests afterwards, ensures that none came since.
--
-- Locks: none. Index: attempt_pkey, checkpoint_pkey.
create or replace function taskq.too_long(p_campaign bigint, p_reports jsonb)
returns jsonb
language plpgsql
as $$
declare
    v_most integer;
    v_one record;
    v_before record;
    v_checkpoint record;
begin
    select c.max_out_of_time into v_most
      from taskq.campaign c
     where c.campaign_id = p_campaign;
    for v_one in
        select (r.ord - 1)::integer as place, r.report, (r.report ->> 'task')::bigint as task,
               (r.report ->> 'lease')::uuid as lease
          from jsonb_array_elements(p_reports) with ordinality as r (report, ord)
         where r.report ->> 'outcome' = 'released'
           and r.report ->> 'error_class' in ('out-of-time', 'continued')
           and coalesce((r.report ->> 'started')::boolean, true)
           and not coalesce((r.report ->> 'refused')::boolean, false)
    loop
        select k.lease_id, k.attempt into v_checkpoint
          from taskq.checkpoint k
         where k.campaign_id = p_campaign
           and k.task_id = v_one.task;
        select bool_or(a.lease_id = v_one.lease) as is_over,
               bool_or(a.lease_id = v_one.lease and a.error_class = 'too-long') as was_too_long,
               array_agg(a.attempt order by a.attempt)
                   filter (where a.outcome = 'released' and a.error_class in ('out-of-time', 'continued')
                             and a.refused is not true
                             and a.attempt > coalesce(a.since, 0)
                             and a.attempt > coalesce(v_checkpoint.attempt, 0)) as attempts,
               coalesce(max(a.attempt), 0) + 1 >= 10000 as never_ends
          into v_before
          from (
              select a.attempt, a.lease_id, a.outcome, a.error_class, a.refused,
                     max(a.attempt) filter (where a.error_class = 'too-long') over () as since
                from (
                    select a.attempt, a.lease_id, a.outcome, a.error_class, a.refused
                      from taskq.attempt a
                     where a.campaign_id = p_campaign
                       and a.task_id = v_one.task
                     order by a.campaign_id desc, a.task_id desc, a.attempt desc
                     limit 2000
                ) a
          ) a;
        continue when not coalesce(v_before.was_too_long, false)
                  and (coalesce(v_before.is_over, false)
                       or not v_before.never_ends
                       and (v_checkpoint.lease_id is not distinct from v_one.lease
                            or coalesce(cardinality(v_before.attempts), 0) + 1 < v_most));
        p_reports := jsonb_set(p_reports, array[v_one.place::text], v_one.report || jsonb_build_object(
            'outcome', 'failed', 'retry', false, 'error_class', 'too-long',
            'error', format(
                '%s in %s; the last: %s',
                case when v_one.report ->> 'error_class' = 'continued' then 'no progress'
                     else 'out of time' end,
                case when v_before.never_ends then 'one of 10000 attempts'
                     when v_most = 1 then 'one attempt'
                     else format('%s attempts (%s before this one)', v_most, array_to_string(
                         v_before.attempts[cardinality(v_before.attempts) - 19 :], ', ')) end,
                coalesce(left(v_one.report ->> 'error', 1000), '-'))));
    end loop;
    return p_reports;
end
$$;
