-- start_bundles(campaign, tasks, spans, sessions, leases): starts attempts of tasks that were in a span, as bundles,
-- see migrations/0002_tasks.sql. A part of take(), which has taken them out of their spans; not for clients.
--
-- One element for each task, see pick_for(); those that have a row are left to start_rows(). tasks: as take() returns
-- them; null: none. started: how many.
--
-- A bundle has tasks of one span, at most 128, since a report on one of them writes the others again; their ids are
-- less than 65536 apart, see unpack().
create or replace function taskq.start_bundles(
    p_campaign bigint,
    p_tasks bigint[],
    p_spans bigint[],
    p_sessions bigint[],
    p_leases uuid[],
    out tasks json,
    out started integer
)
language plpgsql
as $$
declare
    -- After the locks: an attempt begins after the one before it has ended.
    v_now constant timestamptz := clock_timestamp();
begin
    with given as materialized (
        select g.*
          from unnest(p_tasks, p_spans, p_sessions, p_leases)
               with ordinality as g (task_id, span, session_id, lease_id, ord)
         where g.span is not null
    ), bundled as (
        insert into taskq.bundle (session_id, lease_id, first_id, campaign_id, claimed_at, tasks)
        select g.session_id, g.lease_id, min(g.task_id), p_campaign, v_now,
               array_agg(g.task_id order by g.task_id)
          from given g
         group by g.session_id, g.lease_id, g.span, (g.ord - 1) / 128, g.task_id / 65536
    )
    select json_agg(json_build_array(g.lease_id, g.task_id, 1, s.key, s.payload, g.session_id)), count(*)
      into tasks, started
      from given g
     cross join lateral taskq.spec_of(p_campaign, g.task_id) s;
end
$$;
