-- recover(path, site, silent_s, lost_since, dry_run): recovers from a crashed farm at once: ends the sessions
-- of silent agents and hands out their tasks again, which count neither as failures nor as losses; the same
-- holds for tasks of sessions that have ended already. Sequences that are behind are mended, see
-- mend_sequences().
--
-- path: of agents that serve this campaign or one below it. site: only those of this site; null: of any.
-- silent_s: seconds without a heartbeat, not counting time in which the server was down; null: half of the
--     session's lease, in which a live agent sends two heartbeats.
-- lost_since: also retry tasks at and below the path that failed through lost agents (classes agent-lost,
--     job-out-of-memory, job-node-failed, job-out-of-time and poison) since then; null: none.
-- dry_run: do it, return what it did, and roll it back.
-- sessions: how many were ended. sessions_left, tasks_left: silent sessions, and tasks of ended ones, that
--     were locked by a heartbeat or a report in progress and left alone; call again.
--     braked: whether the brake is still on afterwards, see brake(). campaigns: JSON array of objects
--     with path, handed_out and retried (numbers of tasks), in the order of paths.
-- Error TQ404: no such campaign. Idempotent. Call it in a transaction of its own: tasks that the
-- transaction has moved before would be counted too.
--
-- Locks: for each campaign with tasks to retry, in their order, the lock of seed_begin() and the rows of these tasks,
-- waiting for them, see retry(); then the rows of the sessions and of their tasks, skipping locked ones; last the row
-- of the brake. Index: campaign_path_key, attempt_unsuccessful, task_pkey, session_open, task_working, delta_xid.
-- @roles operator
-- @gateway no
-- @act recover retry
-- @plan generic by-key
create or replace function taskq.recover(
    p_path text,
    p_site text,
    p_silent_s double precision,
    p_lost_since timestamptz,
    p_dry_run boolean,
    out sessions integer,
    out sessions_left integer,
    out tasks_left integer,
    out braked boolean,
    out campaigns jsonb
)
language plpgsql
as $$
declare
    v_now constant timestamptz := clock_timestamp();
    v_serving_since constant timestamptz := taskq.serving_since();
    v_failed record;
    v_silent bigint[];
    v_ended bigint[];
    v_left bigint[];
    v_session bigint;
    v_began boolean;
begin
    perform taskq.campaign_id(p_path);
    perform taskq.mend_sequences(null);

    -- All of a campaign at once: its tasks are locked in their order.
    for v_failed in
        select a.campaign_id, array_agg(distinct a.task_id) as tasks
          from taskq.subtree(p_path) c
         cross join unnest(array['agent-lost', 'job-out-of-memory', 'job-node-failed',
                             'job-out-of-time', 'poison']) as k (error_class)
         cross join lateral (
             select a.campaign_id, a.task_id, a.attempt, a.ended_at, a.outcome
               from taskq.attempt a
              where a.campaign_id = c.campaign_id
                and a.error_class = k.error_class
                and a.outcome <> 'done'
             offset 0
         ) a
         cross join lateral taskq.task_of(a.campaign_id, a.task_id) t
         where a.ended_at >= p_lost_since
           and a.outcome = 'lost'
           and a.attempt = t.attempt
           and taskq.campaign_state(c.campaign_id) < 'cancelled'
         group by a.campaign_id
         order by a.campaign_id
    loop
        -- What is retried in all campaigns is one act.
        if v_began is null then
            perform taskq.note_act(p_path, 'retry', array['recover']);
            v_began := true;
        end if;
        perform taskq.retry(v_failed.campaign_id, 'failed', null, v_failed.tasks, 0, null);
    end loop;

    v_silent := array(
        select s.session_id
          from taskq.session s
          join taskq.campaign c on c.campaign_id = s.campaign_id
         where s.ended_at is null
           and s.site = coalesce(p_site, s.site)
           and taskq.at_or_below(c.path, p_path)
           and greatest(taskq.believed(s.heartbeat_at, v_now), v_serving_since)
               + make_interval(secs => coalesce(p_silent_s, s.lease_s / 2)) < v_now);
    with silent as materialized (
        select s.session_id
          from taskq.session s
         where s.session_id = any (v_silent)
           and s.ended_at is null
           -- It may have been heard since.
           and coalesce(taskq.believed(s.heartbeat_at, v_now), '-infinity')
               < v_now - make_interval(secs => coalesce(p_silent_s, s.lease_s / 2))
         order by s.session_id
           for no key update skip locked
    ), ended as (
        update taskq.session s
           set ended_at = clock_timestamp()  -- read after the wait for tasks: see expire()
          from silent e
         where s.session_id = e.session_id
     returning s.session_id
    )
    select coalesce(array_agg(e.session_id order by e.session_id), '{}') into v_ended from ended e;
    v_left := array(
        select s.session_id
          from taskq.ended_with_work() e
          join taskq.session s on s.session_id = e
          join taskq.campaign c on c.campaign_id = s.campaign_id
         where s.session_id <> all (v_ended)
           and s.site = coalesce(p_site, s.site)
           and taskq.at_or_below(c.path, p_path)
         order by s.session_id);
    foreach v_session in array v_ended || v_left loop
        perform taskq.give_back(v_session, 'released');
    end loop;
    perform taskq.brake();

    sessions := cardinality(v_ended);
    sessions_left := cardinality(v_silent) - sessions;
    select coalesce(sum(taskq.in_hand(e.session_id)), 0) into tasks_left
      from unnest(v_ended || v_left) as e (session_id);
    select b.since is not null into braked from taskq.brake b;
    -- Each step that moves tasks has recorded how many.
    select coalesce(jsonb_agg(to_jsonb(m) order by m.path), '[]') into campaigns
      from (
          select c.path, coalesce(sum(d.waiting) filter (where d.working < 0), 0) as handed_out,
                 coalesce(sum(d.waiting) filter (where d.failed < 0), 0) as retried
            from taskq.delta d
            join taskq.campaign c on c.campaign_id = d.campaign_id
           where d.xid = pg_current_xact_id()
           group by c.path
      ) m;
    if sessions > 0 or campaigns @? '$[*].handed_out ? (@ > 0)' then
        perform taskq.note_act(
            p_path, 'recover', array_remove(array['site ' || p_site, sessions || ' sessions'], null),
            (select taskq.total((m.campaign ->> 'handed_out')::bigint) from jsonb_array_elements(campaigns) as m (campaign)));
    end if;
    if p_dry_run then
        -- A code that ends in 000 would match all codes of its class, which are ours.
        raise exception 'undone' using errcode = 'TQ001';
    end if;
exception
    when sqlstate 'TQ001' then
        null;
end
$$;
