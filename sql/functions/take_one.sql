-- take_one(campaign, session, lease): claims one task for one agent, where all is as usual: the
-- connection has a fresh position hint, the campaign is open and neither requires anything nor
-- limits how many run, the session lives, the lease id is new, and a task is waiting behind the
-- hint, and it is not time to look for tasks that have failed before. If not, it takes nothing, and take()
-- finds out. A part of exchange(), which pins the settings and records the moves; not for clients.
--
-- Results: as those of take().
--
-- Locks: the row of the task. Index: task_waiting, attempt_pkey. One statement: most of the time of a
-- statement on one row goes into setting it up. What is picked is computed once, so that exactly the
-- row that was locked is updated; conditions that name no table of the update
-- are tested once, before.
create or replace function taskq.take_one(
    p_campaign bigint,
    p_session bigint,
    p_lease uuid,
    out tasks json,
    out revision integer
)
language plpgsql
as $$
declare
    v_now constant timestamptz := clock_timestamp();
    v_now_us constant bigint := extract(epoch from v_now) * 1000000;
    v_setting text := 'taskq.position_' || p_campaign;
    v_hint bigint[] := nullif(current_setting(v_setting, true), '')::bigint[];
    v_rank bigint;
    v_task bigint;
begin
    if v_hint is null or v_hint[4] = 1
       or v_now_us not between v_hint[3] - 5000000 and v_hint[3]
    then
        return;
    end if;
    with pick as materialized (
        select w.task_id
          from taskq.task w
         where w.campaign_id = p_campaign
           and w.status = 'waiting'
           and w.avoids is null
           and ((-w.priority), w.task_id) > (v_hint[1], v_hint[2])
         order by w.campaign_id, (-w.priority), w.task_id
         limit 1
           for no key update skip locked
    )
    update taskq.task t
       set status = 'working',
           lease_id = p_lease,
           session_id = p_session,
           -- Behind the lock: an attempt begins after that before it has ended.
           claimed_at = clock_timestamp(),
           attempt = t.attempt + 1
      from pick p
     cross join lateral (
           -- Only by spec_pkey, see tasks().
           select s.key, s.payload
             from taskq.spec s
            where s.campaign_id = p_campaign
              and s.task_id >= p.task_id
              and s.task_id <= p.task_id
            order by s.campaign_id, s.task_id
            limit 1) s,
           taskq.campaign c
     where t.campaign_id = p_campaign
       and t.task_id = p.task_id
       and c.campaign_id = p_campaign
       and c.max_running is null
       and c.requires = '{}'
       and not exists (
           select from taskq.campaign a
            where a.campaign_id = any (c.lineage)
              and a.status <> 'open')
       and exists (
           select from taskq.session e
            where e.session_id = p_session
              and e.ended_at is null)
       and not exists (
           select from taskq.task w
            where w.session_id = p_session
              and w.lease_id = p_lease
              and w.status = 'working')
       -- See take().
       and (t.attempt = 0
            or (select count(*)
                  from taskq.attempt a
                 where a.campaign_id = p_campaign
                   and a.task_id = t.task_id
                   and a.lease_id = p_lease) = 0)
 returning json_build_array(
               json_build_array(
                   t.lease_id, t.task_id, t.attempt, s.key, s.payload, t.session_id)),
           c.revision, -t.priority, t.task_id
      into tasks, revision, v_rank, v_task;
    if found then
        v_setting := set_config(v_setting, array[v_rank, v_task, v_hint[3]]::text, false);
    end if;
end
$$;
