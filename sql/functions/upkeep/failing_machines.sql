-- failing_machines(campaign, since, share): on how many machines nearly everything fails, and what speaks against it.
-- A part of pause_failing(), which pins the settings; not for clients.
--
-- failing: machines on which a larger share than this of the first attempts since an instant failed. serving: machines
--     whose agents serve the campaign, with those that fail. outlasting: attempts that have run for longer by now than
--     nine of ten of those that failed: where tasks take minutes, no healthy one has ended when a bad host has failed a
--     hundred. They count as successes. seen: how many failures were looked at. spared: how many of
--     these were on machines in a maintenance window of theirs; they speak for nothing.
--
-- A machine is a host by its name, without what Kubernetes appends to names of pods: pods of one kind that come and go
-- are no new hosts. Hosts without a name are one machine. An agent's tasks that wait for a slot do not run: of a
-- session, as many count as it has slots.
--
-- Reads 10,000 attempts at most, those of the tasks seeded last, and the tasks of 10,000 sessions. Index: attempt_pkey,
-- session_pkey, session_open, task_working, bundle_pkey.
create or replace function taskq.failing_machines(
    p_campaign bigint,
    p_since timestamptz,
    p_share double precision,
    out failing bigint,
    out serving bigint,
    out outlasting bigint,
    out seen bigint,
    out spared bigint
)
language plpgsql stable
as $$
declare
    v_now constant timestamptz := clock_timestamp();
    v_heard constant timestamptz := taskq.serving_since();
    -- The end of a pod's name, which is drawn; see SafeEncodeString of Kubernetes.
    v_pod constant text := '(-[bcdfghjklmnpqrstvwxz2456789]{8,10})?-(?=[2-9]*[a-z])[bcdfghjklmnpqrstvwxz2456789]{5}$';
    v_lineage constant bigint[] := (select c.lineage from taskq.campaign c where c.campaign_id = p_campaign);
    v_path constant text := (select c.path from taskq.campaign c where c.campaign_id = p_campaign);
    v_maintained constant boolean := exists (select from taskq.maintenance m where m.ends > clock_timestamp());
begin
    with ended as materialized (
        select regexp_replace(n.host, v_pod, '') as machine, a.outcome::text = 'failed' as failed,
               taskq.ran_s(a.phases, a.claimed_at, a.ended_at) as run_s,
               v_maintained and taskq.in_maintenance(v_path, n.site, n.host) as is_spared
          from (
              select a.*
                from taskq.attempt a
               where a.campaign_id = p_campaign
               order by a.campaign_id desc, a.task_id desc, a.attempt desc
               limit 10000
          ) a
         cross join lateral taskq.session_of(a.session_id) n
         where a.attempt = 1
           and a.ended_at >= p_since
           and a.outcome::text in ('done', 'failed')
    ), usual as materialized (
        select percentile_cont(0.9) within group (order by e.run_s) as run_s from ended e where e.failed and not e.is_spared
    ), present as materialized (
        select regexp_replace(s.host, v_pod, '') as machine, least(s.slots, w.outlasting) as outlasting
          from (
              select s.*
                from taskq.session s
               where s.ended_at is null
               order by s.session_id
               limit 10000
          ) s
         cross join usual u
         cross join lateral (
             select coalesce(sum(h.tasks), 0) as outlasting
               from taskq.held_of(s.session_id) h
              where h.campaign_id is not distinct from p_campaign
                and h.claimed_at < v_now - make_interval(secs => u.run_s)
         ) w
         where s.campaign_id = any (v_lineage)
           and not s.drain
           and greatest(s.heartbeat_at, v_heard) + make_interval(secs => s.lease_s) > v_now
    ), machine as (
        select m.machine, sum(m.failed) as failed, sum(m.well) as well, sum(m.outlasting) as outlasting,
               bool_or(m.present) as present
          from (
              select e.machine, e.failed::integer as failed, (not e.failed)::integer as well, 0 as outlasting,
                     false as present
                from ended e
               where not e.is_spared
               union all
              select p.machine, 0, 0, p.outlasting, true
                from present p
          ) m
         group by m.machine
    )
    select count(*) filter (where b.fails), count(*) filter (where b.fails or m.present), coalesce(sum(m.outlasting), 0),
           coalesce(sum(m.failed), 0) + (select count(*) from ended e where e.failed and e.is_spared),
           (select count(*) from ended e where e.failed and e.is_spared)
      into failing, serving, outlasting, seen, spared
      from machine m
     cross join lateral (select m.failed > p_share * (m.failed + m.well + m.outlasting)) as b (fails);
end
$$;
