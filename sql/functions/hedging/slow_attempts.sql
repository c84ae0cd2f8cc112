-- slow_attempts(campaign, after_s, most): the running attempts of a campaign that were claimed longer ago
-- than this, by the time in which the queue served, and that hedge_task() may hedge, the oldest first. A part of hedge(), which pins the settings;
-- not for clients.
--
-- Leaves out tasks that were hedged before, and those that one more failure ends: that does not change while
-- the attempt runs, and they would take the place of others in each call.
--
-- Goes through the open sessions, at most 10,000, with their tasks: no index has the working tasks of a
-- campaign. Index: session_open, task_working, bundle_pkey, attempt_pkey.
create or replace function taskq.slow_attempts(p_campaign bigint, p_after_s double precision, p_most bigint)
returns table (task_id bigint, lease_id uuid, host text, run_s double precision)
language plpgsql
as $$
declare
    v_now constant timestamptz := clock_timestamp();
    v_before constant timestamptz := taskq.served_ago(v_now, p_after_s);
    v_lineage constant bigint[] := (
        select c.lineage from taskq.campaign c where c.campaign_id = p_campaign);
    v_max_attempts constant integer := (
        select c.max_attempts from taskq.campaign c where c.campaign_id = p_campaign);
begin
    return query
        select w.task_id, w.lease_id, s.host, taskq.served_s(w.claimed_at, v_now)
          from (
              select s.session_id, s.host, s.campaign_id
                from taskq.session s
               where s.ended_at is null
               order by s.session_id
               limit 10000
          ) s
         cross join lateral (
             select t.campaign_id, t.task_id, t.lease_id, t.claimed_at, t.attempt, t.failures
               from taskq.task t
              where t.session_id = s.session_id
                and t.status = 'working'
              union all
             select b.campaign_id, u.task_id, b.lease_id, b.claimed_at, 1, 0
               from taskq.bundle b
              cross join lateral unnest(b.tasks) as u (task_id)
              where b.session_id = s.session_id
             offset 0
         ) w
         where s.campaign_id = any (v_lineage)
           and w.campaign_id is not distinct from p_campaign
           and w.claimed_at < v_before
           and w.failures + 1 < v_max_attempts
           and (w.attempt = 1
                or (select count(*)
                      from taskq.attempt a
                     where a.campaign_id = p_campaign
                       and a.task_id = w.task_id
                       and a.outcome::text = 'hedged') = 0)
         order by w.claimed_at, w.task_id
         limit p_most;
end
$$;
