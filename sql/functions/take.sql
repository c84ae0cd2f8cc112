-- take(campaign, sessions, leases, wants, freed): claims waiting tasks for one or several agents. A
-- part of exchange(), which pins the settings and records the moves; not for clients.
--
-- sessions, leases, wants: one element for each claim: who claims, under which new lease id, how
--     many tasks (0 to 1000). Each session once. If payloads are large, claims get fewer: 4 MiB of payloads together,
--     but at least one task each.
-- freed: how many tasks this transaction has ended without having recorded it.
-- tasks: JSON array of [lease, task, attempt, key, payload, session], or null where there is none.
--     Each claim gets the highest priority and first seeded of what the claims before it left. A
--     claim that was answered before (its lease is known) gets the same tasks again. Two sessions
--     may claim under one lease id: the session shows whose a task is.
-- taken: how many tasks moved from waiting to working.
-- refused: the sessions that have ended, or null; they get nothing.
-- revision: the campaign's.
-- spent: the sessions that would have got a task that had their lease before, see below; or null. Tasks may
--     wait although these sessions got none.
-- avoided: the sessions for which tasks wait that they must not have yet, see avoided(), if a session got
--     less than it wanted; and those whose site runs as many as it may, see site_room(); or null. Tasks may
--     wait although these sessions got none.
-- Error TQ400: a claim wants too much.
--
-- If nothing is taken, all waiting tasks were locked at this moment, as many run as the campaign allows,
-- or the agent does not offer what it requires.
--
-- No task is taken under a lease that it had before: nobody waits for a claim that comes so late, after a
-- gateway hung, and reports on the old attempt would count for the new one.
--
-- Locks: what it takes, see pick(), skipping locked ones. Index: that of pick(), attempt_pkey. Claims of a
-- campaign that limits how many run, in all or at a site, wait for each other, see room().
--
-- A claim for one task gets it with a row of its own. A claim for several gets tasks that were in a span as bundles,
-- see migrations/0002_tasks.sql. A bundle has tasks of one span, at most 128, since a report on one of them writes
-- the others again; their ids are less than 65536 apart, see unpack().
--
-- Tasks that have failed before wait in an index of their own, which is searched at intervals: see
-- pick_again(), which checks on which hosts they may run.
create or replace function taskq.take(
    p_campaign bigint,
    p_sessions bigint[],
    p_leases uuid[],
    p_wants integer[],
    p_freed integer,
    out tasks json,
    out taken integer,
    out refused bigint[],
    out revision integer,
    out spent bigint[],
    out avoided bigint[]
)
language plpgsql
as $$
declare
    v_now timestamptz;
    v_again record;
    v_picked record;
    v_wanted integer;
    v_open boolean;
    v_requires text[];
    v_limit integer;
    v_limit_per_site integer;
    v_most integer;
    v_room integer;
    v_at_sites record;
    v_ordinary boolean;
    v_packed boolean;
    v_sessions bigint[];
    v_leases uuid[];
    v_hint bigint[];
    v_tasks bigint[] := '{}';
    v_ranks bigint[] := '{}';
    v_spans bigint[] := '{}';
    v_places integer[] := '{}';
    v_answered json;
    v_bundled json;
    v_moved json;
begin
    taken := 0;
    if 0 > any (p_wants) or 1000 < any (p_wants) then
        raise exception 'a claim is for 0 to 1000 tasks' using errcode = 'TQ400';
    end if;

    select not exists (
               select from taskq.campaign a
                where a.campaign_id = any (c.lineage)
                  and a.status <> 'open'),
           c.revision, c.requires, c.max_running, c.max_running_per_site,
           -- Payloads of 4 MiB together.
           4194304 / greatest(c.payload_bytes, 1),
           (select count(*)
              from taskq.session s
             where s.session_id = any (p_sessions)
               and s.ended_at is null) = cardinality(p_sessions)
           -- Once for all that offer the same.
           and (c.requires = '{}' or (
               select bool_and(taskq.offered(c.requires, o.offers))
                 from (select distinct s.offers
                         from taskq.session s
                        where s.session_id = any (p_sessions)
                       offset 0) o))
           -- Pair by pair: with two arrays, servers before 17 look through all that a session has.
           and not exists (
               select from unnest(p_sessions, p_leases) as c (session_id, lease_id)
                cross join lateral (
                    select from taskq.task t
                     where t.session_id = c.session_id
                       and t.lease_id = c.lease_id
                       and t.status = 'working'
                     union all
                    select from taskq.bundle b
                     where b.session_id = c.session_id
                       and b.lease_id = c.lease_id
                    offset 0
                ) t)
      into v_open, revision, v_requires, v_limit, v_limit_per_site, v_most, v_ordinary
      from taskq.campaign c
     where c.campaign_id = p_campaign;

    if v_ordinary is not true then
        select s.refused, s.answered, s.sessions, s.leases, s.wants
          into refused, v_answered, p_sessions, p_leases, p_wants
          from taskq.sort_claims(p_campaign, v_requires, p_sessions, p_leases, p_wants) s;
        tasks := v_answered;
    end if;
    if v_open is not true or p_wants is null then
        return;
    end if;
    if v_most < 1000 then
        p_wants := array(
            select least(w.want, greatest(1, v_most / cardinality(p_wants)))
              from unnest(p_wants) with ordinality as w (want, ord)
             order by w.ord);
    end if;
    -- One element for each task wanted: the n-th task found goes to the n-th element.
    v_packed := 1 < any (p_wants);
    if 1 = all (p_wants) then
        v_sessions := p_sessions;
        v_leases := p_leases;
    elsif cardinality(p_wants) = 1 then
        v_sessions := array_fill(p_sessions[1], p_wants);
        v_leases := array_fill(p_leases[1], p_wants);
    else
        select array_agg(c.session_id order by c.ord), array_agg(c.lease_id order by c.ord)
          into v_sessions, v_leases
          from unnest(p_sessions, p_leases, p_wants)
               with ordinality as c (session_id, lease_id, want, ord)
          cross join lateral generate_series(1, c.want);
    end if;
    if v_limit is not null then
        v_room := taskq.room(p_campaign, v_limit, p_freed);
        if v_limit_per_site is not null and v_room > 0 then
            v_at_sites := taskq.site_room(p_campaign, v_limit_per_site, v_sessions, v_leases);
            v_sessions := v_at_sites.roomy_sessions;
            v_leases := v_at_sites.roomy_leases;
            avoided := v_at_sites."full";
        end if;
        v_leases := v_leases[1 : v_room];
    end if;
    v_wanted := cardinality(v_leases);
    if v_wanted = 0 then
        return;
    end if;

    -- Tasks that have failed go to the claims that may have them; the others get what is left, in order.
    -- Those that come after all others are looked for last.
    v_hint := nullif(current_setting('taskq.position_' || p_campaign, true), '')::bigint[];
    if v_hint is null or v_hint[4] = 1
       or v_hint[3] < extract(epoch from clock_timestamp()) * 1000000
    then
        v_again := taskq.pick_again(p_campaign, v_sessions[1 : v_wanted], true);
        v_tasks := v_again.tasks;
        v_ranks := v_again.ranks;
        v_places := v_again.places;
        v_spans := array_fill(null::bigint, array[cardinality(v_tasks)]);
    end if;
    v_picked := taskq.pick(p_campaign, v_wanted - cardinality(v_tasks));
    if v_places = '{}' then
        v_tasks := v_picked.tasks;
        v_ranks := v_picked.ranks;
        v_spans := v_picked.spans;
    else
        v_places := v_places || array(
            select i from generate_series(1, v_wanted) as i
             where i <> all (v_places)
             order by i
             limit cardinality(v_picked.tasks));
        v_tasks := v_tasks || v_picked.tasks;
        v_ranks := v_ranks || v_picked.ranks;
        v_spans := v_spans || v_picked.spans;
    end if;
    if cardinality(v_tasks) < v_wanted then
        if v_places = '{}' then
            v_places := array(select generate_series(1, cardinality(v_tasks)));
        end if;
        v_again := taskq.pick_again(
            p_campaign, v_sessions[1 : v_wanted], false, v_tasks, v_places);
        v_tasks := v_tasks || v_again.tasks;
        v_ranks := v_ranks || v_again.ranks;
        v_places := v_places || v_again.places;
        v_spans := v_spans || array_fill(null::bigint, array[cardinality(v_again.tasks)]);
        if cardinality(v_tasks) < v_wanted then
            avoided := avoided || taskq.avoided(p_campaign, p_sessions);
        end if;
    end if;
    if v_tasks = '{}' then
        return;
    end if;
    if v_places <> '{}' then
        select array_agg(v_sessions[p.place] order by p.ord),
               array_agg(v_leases[p.place] order by p.ord)
          into v_sessions, v_leases
          from unnest(v_places) with ordinality as p (place, ord);
    end if;
    if v_limit_per_site is not null then
        perform taskq.note_at_sites(
            p_campaign, v_sessions[1 : cardinality(v_tasks)], v_leases[1 : cardinality(v_tasks)]);
    end if;
    -- After the locks: an attempt begins after the one before it has ended.
    v_now := clock_timestamp();

    if v_packed then
        with given as materialized (
            select g.*
              from unnest(v_tasks, v_spans, v_sessions, v_leases)
                   with ordinality as g (task_id, span, session_id, lease_id, ord)
             where g.span is not null
        ), bundled as (
            insert into taskq.bundle (
                   session_id, lease_id, first_id, campaign_id, claimed_at, tasks)
            select g.session_id, g.lease_id, min(g.task_id), p_campaign, v_now,
                   array_agg(g.task_id order by g.task_id)
              from given g
             group by g.session_id, g.lease_id, g.span, (g.ord - 1) / 128, g.task_id / 65536
        )
        select json_agg(
                   json_build_array(g.lease_id, g.task_id, 1, s.key, s.payload, g.session_id)),
               count(*)
          into v_bundled, taken
          from given g
          cross join lateral taskq.spec_of(p_campaign, g.task_id) s;
    end if;

    if taken < cardinality(v_tasks) then
        with moved as (
            insert into taskq.task as t (
                   campaign_id, task_id, lease_id, session_id, claimed_at, status, attempt,
                   priority)
            select p_campaign, g.task_id, g.lease_id, g.session_id, v_now, 'working', 1, -g.rank
              from unnest(v_tasks, v_ranks, v_spans, v_sessions, v_leases)
                   as g (task_id, rank, span, session_id, lease_id)
             where g.task_id is not null
               and not (v_packed and g.span is not null)
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
        select json_agg(
                   json_build_array(
                       m.lease_id, m.task_id, m.attempt, s.key, s.payload, m.session_id)),
               taken + count(*)
          into v_moved, taken
          from moved m
          cross join lateral taskq.spec_of(p_campaign, m.task_id) s;
        if taken < cardinality(v_tasks) then
            select array_agg(distinct g.session_id) into spent
              from unnest(v_tasks, v_spans, v_sessions) as g (task_id, span, session_id)
             where g.span is null
               and g.task_id not in (
                       select (m.task ->> 1)::bigint
                         from json_array_elements(v_moved) as m (task));
        end if;
    end if;
    tasks := coalesce(v_moved, v_bundled, v_answered);
    if num_nonnulls(v_moved, v_bundled, v_answered) > 1 then
        tasks := (
            select json_agg(e.task)
              from (
                  select json_array_elements(v_moved) as task
                   union all
                  select json_array_elements(v_bundled)
                   union all
                  select json_array_elements(v_answered)
              ) e);
    end if;
end
$$;
