-- take(campaign, sessions, leases, wants, freed): claims waiting tasks for one or several agents. A
-- part of exchange(), which pins the settings and records the moves; not for clients.
--
-- sessions, leases, wants: one element for each claim: who claims, under which new lease id, how
--     many tasks (0 to 1000). Each session once. If payloads are large, claims get fewer: 4 MiB of payloads together,
--     but at least one task each. Where many tasks have one start, the last ones are shared, see shares_of_tail().
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
--     less than it wanted; and those whose site, or a limit that the campaign names, runs as many as it may, see
--     limit_room(); or null. Tasks may wait although these sessions got none.
-- Error TQ400: a claim wants too much.
--
-- If nothing is taken, all waiting tasks were locked at this moment, as many run as the campaign allows,
-- or the agent does not offer what it requires.
--
-- It takes tasks in four steps, each of one function. Claims that are not for new tasks of this campaign are sorted
-- out, if there are any (sort_claims). The others get one place for each task that they want, in their order, as far
-- as there is room (room_to_run, limit_room). Tasks are found and locked for the places (pick_for), and started under
-- their leases: several from spans as bundles (start_bundles), all others with a row of their own (start_rows).
--
-- Locks: what it takes, see pick(), skipping locked ones. Index: that of pick(), attempt_pkey. Claims of a
-- campaign that limits how many run, in all, at a site or by a named limit, wait for each other, see room_to_run().
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
    v_open boolean;
    v_requires text[];
    v_limit integer;
    v_limit_per_site integer;
    v_most integer;
    v_ordinary boolean;
    v_answered json;
    -- Whether a claim is for several tasks.
    v_packed boolean;
    -- The limits that the campaign names; null: none.
    v_named text[];
    -- Whether many of its tasks have one start.
    v_batched boolean;
    v_roomy record;
    v_wanted integer;
    -- One element for each task wanted.
    v_sessions bigint[];
    v_leases uuid[];
    v_found record;
    v_bundles record;
    v_bundled json;
    v_rows record;
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
           nullif(c.named_limits, '{}'),
           -- The handler is read for claims of several tasks alone.
           case when 1 < any (p_wants) then (c.handler ->> 'batch')::integer > 1 end,
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
      into v_open, revision, v_requires, v_limit, v_limit_per_site, v_most, v_named, v_batched, v_ordinary
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
    if v_batched then
        p_wants := taskq.shares_of_tail(p_campaign, p_sessions, p_wants);
    end if;
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
        v_wanted := taskq.room_to_run(p_campaign, v_limit, p_freed);
        if v_wanted > 0 and num_nonnulls(v_limit_per_site, v_named) > 0 then
            v_roomy := taskq.limit_room(p_campaign, v_wanted, v_limit_per_site, v_named, v_sessions, v_leases);
            v_sessions := v_roomy.roomy_sessions;
            v_leases := v_roomy.roomy_leases;
            avoided := v_roomy."full";
        else
            v_leases := v_leases[1 : v_wanted];
        end if;
    end if;
    v_wanted := cardinality(v_leases);
    if v_wanted = 0 then
        return;
    end if;

    v_found := taskq.pick_for(p_campaign, v_sessions[1 : v_wanted], v_leases);
    if cardinality(v_found.tasks) < v_wanted then
        avoided := avoided || taskq.avoided(p_campaign, p_sessions);
    end if;
    if v_found.tasks = '{}' then
        return;
    end if;
    if num_nonnulls(v_limit_per_site, v_named) > 0 then
        perform taskq.note_in_limits(
            p_campaign, v_named, v_limit_per_site is not null, v_found.sessions, v_found.leases);
    end if;
    if v_packed then
        v_bundles := taskq.start_bundles(
            p_campaign, v_found.tasks, v_found.spans, v_found.sessions, v_found.leases);
        v_bundled := v_bundles.tasks;
        taken := v_bundles.started;
    end if;
    if taken < cardinality(v_found.tasks) then
        v_rows := taskq.start_rows(
            p_campaign, v_found.tasks, v_found.ranks, v_found.spans, v_found.sessions, v_found.leases, v_packed);
        v_moved := v_rows.tasks;
        taken := taken + v_rows.started;
        spent := v_rows.spent;
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
