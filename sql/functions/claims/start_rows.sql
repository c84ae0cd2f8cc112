-- start_rows(campaign, tasks, ranks, spans, sessions, leases, packed): starts attempts of tasks with a row of their own
-- each, which they have or get. A part of take(); not for clients.
--
-- One element for each task, see pick_for(). packed: start_bundles() has started those that were in a span.
-- tasks, spent: as take() returns them. started: how many.
--
-- No task is started under a lease that it had before: nobody waits for a claim that comes so late, after a
-- gateway hung, and reports on the old attempt would count for the new one.
create or replace function taskq.start_rows(
    p_campaign bigint,
    p_tasks bigint[],
    p_ranks bigint[],
    p_spans bigint[],
    p_sessions bigint[],
    p_leases uuid[],
    p_packed boolean,
    out tasks json,
    out started integer,
    out spent bigint[]
)
language plpgsql
as $$
declare
    -- After the locks: an attempt begins after the one before it has ended.
    v_now constant timestamptz := clock_timestamp();
    v_given constant integer :=
        case when p_packed then cardinality(array_positions(p_spans, null)) else cardinality(p_tasks) end;
begin
    with moved as (
        insert into taskq.task as t (
               campaign_id, task_id, lease_id, session_id, claimed_at, status, attempt, priority)
        select p_campaign, g.task_id, g.lease_id, g.session_id, v_now, 'working', 1, -g.rank
          from unnest(p_tasks, p_ranks, p_spans, p_sessions, p_leases)
               as g (task_id, rank, span, session_id, lease_id)
         where not (p_packed and g.span is not null)
            on conflict (campaign_id, task_id) do update
           set status = 'working',
               lease_id = excluded.lease_id,
               session_id = excluded.session_id,
               claimed_at = v_now,
               attempt = t.attempt + 1
         where t.attempt = 0
            or (select count(*)
                  from taskq.attempt a
                 where a.campaign_id = p_campaign
                   and a.task_id = excluded.task_id
                   and a.lease_id = excluded.lease_id) = 0
     returning t.task_id, t.lease_id, t.attempt, t.session_id
    )
    select json_agg(json_build_array(m.lease_id, m.task_id, m.attempt, s.key, s.payload, m.session_id)), count(*)
      into tasks, started
      from moved m
     cross join lateral taskq.spec_of(p_campaign, m.task_id) s;
    if started < v_given then
        select array_agg(distinct g.session_id) into spent
          from unnest(p_tasks, p_spans, p_sessions) as g (task_id, span, session_id)
         where g.span is null
           and g.task_id not in (
                   select (m.task ->> 1)::bigint
                     from json_array_elements(tasks) as m (task));
    end if;
end
$$;
