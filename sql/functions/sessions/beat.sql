-- beat(beats): heartbeats of many sessions: renews them, and reconciles the attempts that their agents
-- hold with the tables. heartbeat() does this for one session.
--
-- beats: JSON array of heartbeats as agents send them, see taskq_agent.protocol.Heartbeat, each session once. A
--     member that is missing or null has its default, but for held: null there means that the heartbeat only renews the
--     session. What is not about attempts is kept as the type taskq.said has it; without a tally, the last one stays.
-- Result: a row for each session with news: ended: whether the session has ended; drain: whether its
--     agent shall drain; suspect: why its host is slowed, or null; banned: see session_bans(); kept (array of [campaign, lease, [task, ...]], or
--     null): of claims of which the session has fewer tasks than the agent holds, those that it has; stop (array of
--     [campaign, task, lease], or null): those of `held` whose lease is no longer valid: expired,
--     cancelled, handed on, or never the session's. A lease that expired is left out as long as a
--     success would be salvaged. follow (array of [campaign, task, lease], or null): attempts of the
--     session whose output somebody follows, see follow().
-- Error TQ400: the argument is not of this form; nothing is changed.
--
-- An attempt of the session that neither list names, nor its claim (`claims`), and whose lease is not newer than
-- `drawn`, was claimed by an answer that got lost and will not be asked for again. It goes back to waiting and
-- does not count as an attempt. Newer leases are left alone: their claims may have overtaken the
-- heartbeat on the network. If the agent does not know this server's timeline, attempts that it does
-- not name are left alone too: a standby that took over may have lost the agent's last reports, which
-- the agent will send again.
--
-- Locks: the sessions' rows, in their order; the bundles and the rows of tasks that go back, skipping
-- locked ones. So two calls about the same sessions wait for each other and cannot deadlock.
-- Index: session_pkey, task_working, bundle_pkey, task_pkey, followed_pkey.
--
-- The settings leave one plan: from the sessions to their attempts, and from held attempts to their
-- tasks, each by key. Comparisons with all held attempts use a hashed sub-select.
-- @roles serving
-- @plan generic by-key
create or replace function taskq.beat(p_beats jsonb)
returns table (
    session_id bigint, ended boolean, drain boolean, stop jsonb, suspect text, follow jsonb, kept jsonb,
    banned jsonb)
language plpgsql
as $$
declare
    v_now constant timestamptz := clock_timestamp();
    v_timeline constant bigint := taskq.timeline();
    v_attempts constant text[] := '{session, held, pending, drawn, timeline, claims}';
    -- One element for each session.
    v_sessions bigint[];
    v_drawn uuid[];
    -- Sessions whose unnamed tasks are left alone: their agents send no list, or know another timeline
    -- than this server's.
    v_mute bigint[];
    -- One for each held attempt, and one for each pending claim.
    v_holders bigint[];
    v_campaigns bigint[];
    v_tasks bigint[];
    v_leases uuid[];
    v_waiters bigint[];
    v_pending uuid[];
    -- One for each claim whose tasks are not named one by one; v_counts: how many of them have not ended.
    v_claimers bigint[];
    v_claimed bigint[];
    v_claims uuid[];
    v_counts integer[];
    -- By session, if it has one.
    v_said jsonb;
    v_begun jsonb;
    v_suspects jsonb;
    v_banned jsonb;
    v_followed jsonb;
    v_void jsonb;
    v_fewer jsonb;
    v_live bigint[];
    v_old timestamptz;
    v_ended bigint[];
    v_draining bigint[];
    v_packed record;
    v_unclaimed record;
    v_back taskq.task_status;
begin
    perform taskq.demand_read_committed();
    begin
        select array_agg((b ->> 'session')::bigint),
               array_agg((b ->> 'drawn')::uuid),
               array_agg((b ->> 'session')::bigint)
                   filter (where b -> 'held' = 'null'
                              or (b ->> 'timeline')::bigint not in (0, v_timeline)),
               jsonb_object_agg(
                   b ->> 'session', jsonb_strip_nulls(to_jsonb(jsonb_populate_record(null::taskq.said, b))))
                   filter (where b - v_attempts <> '{}'),
               jsonb_object_agg(b ->> 'session', b -> 'claims') filter (where b -> 'claims' <> '[]')
          into v_sessions, v_drawn, v_mute, v_said, v_begun
          from jsonb_array_elements(p_beats) b;
        select array_agg((b ->> 'session')::bigint), array_agg((h ->> 'campaign')::bigint),
               array_agg((h ->> 'task')::bigint), array_agg((h ->> 'lease')::uuid)
          into v_holders, v_campaigns, v_tasks, v_leases
          from jsonb_array_elements(p_beats) b
         cross join lateral jsonb_array_elements(nullif(b -> 'held', 'null')) h;
        select array_agg((b ->> 'session')::bigint), array_agg(p::uuid)
          into v_waiters, v_pending
          from jsonb_array_elements(p_beats) b
         cross join lateral jsonb_array_elements_text(nullif(b -> 'pending', 'null')) p;
        -- Of tasks that begin together only, which few agents have.
        if v_begun is not null then
            select array_agg((b ->> 'session')::bigint), array_agg(c.campaign), array_agg(c.lease), array_agg(c.tasks)
              into v_claimers, v_claimed, v_claims, v_counts
              from jsonb_array_elements(p_beats) b
             cross join lateral jsonb_to_recordset(nullif(b -> 'claims', 'null'))
                   as c (campaign bigint, lease uuid, tasks integer, begun bigint[]);
        end if;
    exception
        when data_exception or integrity_constraint_violation then
            raise exception 'not a heartbeat: %', sqlerrm using errcode = 'TQ400';
    end;
    -- One null among the held attempts would keep all others from being handed on.
    if array_position(v_sessions || v_campaigns || v_tasks || v_claimed || v_counts::bigint[], null) is not null
       or array_position(v_leases || v_pending || v_claims, null) is not null
       or (select count(distinct s) <> cardinality(v_sessions) from unnest(v_sessions) s) then
        raise exception 'a heartbeat lacks its session or part of an item, or a session has two'
            using errcode = 'TQ400';
    end if;
    -- Each query costs every heartbeat: these are for those that say something.
    if v_said is not null then
        -- Members that are null are gone, so these are items of arrays, which views could not show.
        if v_said @? '$.** ? (@ == null)' then
            raise exception 'a heartbeat lacks part of what it says' using errcode = 'TQ400';
        end if;
        if (select max(octet_length(s.value)) > 32768 from jsonb_each_text(v_said) s) then
            raise exception 'a heartbeat says more than 32 KiB of anything but attempts' using errcode = 'TQ400';
        end if;
    end if;
    if v_begun is not null then
        if (select max(octet_length(c.value)) > 131072 from jsonb_each_text(v_begun) c) then
            raise exception 'a heartbeat says more than 128 KiB of claims' using errcode = 'TQ400';
        end if;
    end if;

    with touched as (
        -- In the order of the key. Locking the rows first would be a third of the log.
        update taskq.session s
           set heartbeat_at = v_now,
               claims = v_begun -> s.session_id::text,
               said = nullif(
                   case when s.said ? 'tally' then jsonb_build_object('tally', s.said -> 'tally') else '{}' end
                       || coalesce(v_said -> s.session_id::text, '{}'),
                   '{}')
         where s.session_id = any (v_sessions)
           and s.ended_at is null
     returning s.session_id, s.drain, s.suspect, s.banned
    )
    select coalesce(array_agg(t.session_id), '{}'),
           coalesce(array_agg(t.session_id) filter (where t.drain), '{}'),
           coalesce(
               jsonb_object_agg(t.session_id, t.suspect) filter (where t.suspect is not null),
               '{}'),
           coalesce(jsonb_object_agg(t.session_id, t.banned) filter (where t.banned is not null), '{}'),
           -- A few rows at most, and nearly always none.
           (select jsonb_object_agg(f.session_id, f.attempts)
              from (select f.session_id,
                           jsonb_agg(distinct jsonb_build_array(
                               f.campaign_id, f.task_id, f.lease_id)) as attempts
                      from taskq.followed f
                     where f.asked_at > v_now - interval '30 s'
                       and f.session_id = any (v_sessions)
                     group by f.session_id) f)
      into v_live, v_draining, v_suspects, v_banned, v_followed
      from touched t;
    v_ended := array(select unnest(v_sessions) except select unnest(v_live));

    -- Agents do not draw leases of the pool. The front hands them out within half of pool_s; a beat that was written
    -- after that must name its leases, and may have been under way for a minute, or half of a short deadline.
    select v_now - make_interval(secs => f.pool_s / 2 + least(60, f.pool_s / 2)) into v_old
      from taskq.front f
     where f.epoch > 0;

    -- A task leased ahead goes to the session that names it; of two sessions the first wins, see name_ahead().
    if found then
        perform taskq.name_ahead(v_holders, v_campaigns, v_tasks, v_leases);
    end if;

    for v_packed in
        select b.campaign_id, array_agg(b.task_id order by b.task_id) as tasks
          from unnest(v_sessions, v_drawn) as s (session_id, drawn)
         cross join lateral (
             select b.campaign_id, t.task_id
               from taskq.bundle b
              cross join lateral unnest(b.tasks) as t (task_id)
              where b.session_id = s.session_id
                and b.lease_id <= s.drawn
                and (b.session_id, b.lease_id) not in (
                        select p.session_id, p.lease_id
                          from unnest(v_waiters, v_pending) as p (session_id, lease_id))
                and (b.session_id, b.campaign_id, t.task_id, b.lease_id) not in (
                        select h.session_id, h.campaign_id, h.task_id, h.lease_id
                          from unnest(v_holders, v_campaigns, v_tasks, v_leases)
                               as h (session_id, campaign_id, task_id, lease_id))
                and (b.session_id, b.campaign_id, b.lease_id) not in (
                        select c.session_id, c.campaign_id, c.lease_id
                          from unnest(v_claimers, v_claimed, v_claims) as c (session_id, campaign_id, lease_id))
             offset 0
         ) b
         where s.session_id <> all (v_ended || v_mute)
         group by b.campaign_id
         order by b.campaign_id
    loop
        perform taskq.unpack(v_packed.campaign_id, v_packed.tasks, null, false);
    end loop;

    -- Campaign by campaign: a join with rows of several may be planned as a walk through the table, which
    -- is small until much fails or is cancelled.
    for v_unclaimed in
        select t.campaign_id, array_agg(t.row_id) as rows
          from unnest(v_sessions, v_drawn) as b (session_id, drawn)
         cross join lateral (
             select t.campaign_id, t.ctid as row_id
               from taskq.task t
              where t.session_id = b.session_id
                and t.status = 'working'
                and case when substr(t.lease_id::text, 15, 1) = '8'
                         then t.claimed_at < v_old else t.lease_id <= b.drawn end
                and (t.session_id, t.lease_id) not in (
                        select p.session_id, p.lease_id
                          from unnest(v_waiters, v_pending) as p (session_id, lease_id))
                and (t.session_id, t.campaign_id, t.task_id, t.lease_id) not in (
                        select h.session_id, h.campaign_id, h.task_id, h.lease_id
                          from unnest(v_holders, v_campaigns, v_tasks, v_leases)
                               as h (session_id, campaign_id, task_id, lease_id))
                and (t.session_id, t.campaign_id, t.lease_id) not in (
                        select c.session_id, c.campaign_id, c.lease_id
                          from unnest(v_claimers, v_claimed, v_claims) as c (session_id, campaign_id, lease_id))
                for no key update skip locked
         ) t
         where b.session_id <> all (v_ended || v_mute)
         group by t.campaign_id
         order by t.campaign_id
    loop
        v_back := taskq.status_after(v_unclaimed.campaign_id, 'waiting');
        update taskq.task t
           set status = v_back,
               attempt = t.attempt - 1
         where t.ctid = any (v_unclaimed.rows);  -- see settle()
        insert into taskq.delta (campaign_id, waiting, working, cancelled)
        select v_unclaimed.campaign_id,
               case when v_back = 'waiting' then count(*) else 0 end, -count(*),
               case when v_back = 'cancelled' then count(*) else 0 end
          from unnest(v_unclaimed.rows);
    end loop;

    -- By key only, whatever the statistics say: no join, and no index but that of the key.
    select jsonb_object_agg(v.session_id, v.stop) into v_void
      from (select h.session_id,
                   jsonb_agg(jsonb_build_array(h.campaign_id, h.task_id, h.lease_id)) as stop
              from unnest(v_holders, v_campaigns, v_tasks, v_leases)
                   as h (session_id, campaign_id, task_id, lease_id)
             where case
                       when (select count(*)
                               from taskq.task t
                              where t.campaign_id = h.campaign_id
                                and t.task_id = h.task_id
                                and t.lease_id = h.lease_id
                                -- A lease of the pool is not void if name_ahead() skipped its locked row.
                                and (t.session_id = h.session_id
                                     or t.session_id = 0
                                     and taskq.session_serves(h.session_id, h.campaign_id))
                                and t.status::text = 'working') = 1
                         or (select true
                               from taskq.bundle b
                              where b.session_id = h.session_id
                                and b.lease_id = h.lease_id
                                -- In a form that no index answers: bundle_task has the campaign first.
                                and b.campaign_id is not distinct from h.campaign_id
                                and h.task_id = any (b.tasks)
                              limit 1) then false
                       else taskq.salvageable(h.campaign_id, h.task_id, h.lease_id) is null
                   end
             group by h.session_id) v;
    if v_claims is not null then
        select jsonb_object_agg(f.session_id, f.kept) into v_fewer
          from (select c.session_id, jsonb_agg(jsonb_build_array(c.campaign_id, c.lease_id, k.tasks)) as kept
                  from unnest(v_claimers, v_claimed, v_claims, v_counts)
                       as c (session_id, campaign_id, lease_id, tasks)
                 cross join lateral (
                     select (select coalesce(jsonb_agg(t.task_id), '[]')
                               from taskq.held_by_claim(c.session_id, c.campaign_id, c.lease_id) t (task_id)) as tasks
                      where c.tasks > (select w.working
                                         from taskq.working_of_claim(c.campaign_id, c.session_id, c.lease_id) w)
                     offset 0
                 ) k
                 group by c.session_id) f;
    end if;

    -- Mostly there is no news.
    if v_ended = '{}' and v_draining = '{}' and v_suspects = '{}' and v_banned = '{}' and v_followed is null
       and v_void is null and v_fewer is null then
        return;
    end if;
    return query
        select e.session_id, true, false, null::jsonb, null, null::jsonb, null::jsonb, null::jsonb
          from unnest(v_ended) as e (session_id)
        union all
        select d.session_id, false, d.session_id = any (v_draining), v_void -> d.session_id::text,
               v_suspects ->> d.session_id::text, v_followed -> d.session_id::text,
               v_fewer -> d.session_id::text, v_banned -> d.session_id::text
          from (select unnest(v_draining)
                 union
                select k::bigint
                  from unnest(array[v_suspects, v_banned, v_followed, v_void, v_fewer]) as n (by_session)
                 cross join lateral jsonb_object_keys(n.by_session) k) as d (session_id)
         where d.session_id = any (v_live);
end
$$;
