-- limit_room(campaign, room, at_site, names, sessions, leases): which claims have room in the limits that a campaign names,
-- and in its own on the tasks that run at each site. A part of take(), after room_to_run(), whose lock it needs; not for
-- clients.
--
-- room: how many tasks may get a place in all. at_site: how many may run at each site; null: any number. names: of the
-- limits; null: none. sessions, leases: one element for each task that is wanted.
-- roomy_sessions, roomy_leases: those of them for which there is room, in order.
-- full: the sessions that get less than they want, since a limit is reached; or null.
--
-- A limit with a name bounds starts over all campaigns that name it, see starts_in_limit(); one at a site bounds the
-- campaign's tasks there. Agents that name no site count as one site. Both hold exactly for tasks that are claimed while
-- they are set: claims that count towards a limit wait for each other, from here to their commit. A
-- claim notes its tasks, see note_in_limits(), and reports do not. While there is room by the sum of what was noted,
-- nothing is looked at. If there is too little, this function finds what has ended, in a snapshot taken after the wait for
-- the locks, so it may see an end late, never early. It looks at the claims of the same sessions, since agents claim when
-- they report, and if that leaves too little room at those of some others. A later claim may find the rest: claims without
-- room come again every two seconds, see `avoided` in take(); and the keeper looks at limits with names, see free_limits().
--
-- A name without a limit, which was removed meanwhile, limits nothing.
--
-- Locks: those of the limits, in one order, behind those of room_to_run(). Index: limit_claim_pkey, limit_total_pkey,
-- named_limit_pkey, session_pkey.
create or replace function taskq.limit_room(
    p_campaign bigint,
    p_room integer,
    p_at_site integer,
    p_names text[],
    p_sessions bigint[],
    p_leases uuid[],
    out roomy_sessions bigint[],
    out roomy_leases uuid[],
    out "full" bigint[]
)
language plpgsql
as $$
declare
    v_look constant integer := 100;
    v_limit record;
    -- One element for each limit, those with names first: its campaign, or 0; how many more starts it allows; what the
    -- session holds of it; and how many of these start at a time.
    v_campaigns bigint[] := '{}';
    v_names text[] := '{}';
    v_left bigint[] := '{}';
    v_held bigint[] := '{}';
    v_slots bigint[] := '{}';
    v_claim record;
    -- The limits that a session's claims count towards.
    v_counting integer[];
    i integer;
    v_gets bigint;
    v_sessions bigint[] := '{}';
    v_may bigint[] := '{}';
begin
    perform pg_advisory_xact_lock(hashtext('taskq.limit'), l.key)
       from (select distinct hashtext(n.name) as key from unnest(p_names) as n (name) order by 1) l;
    for v_limit in
        select 0::bigint as campaign_id, l.name, l.most, e.sessions, e.tasks
          from (select array_agg(distinct e.session_id) as sessions, count(*) as tasks
                  from unnest(p_sessions) as e (session_id)) e
         cross join taskq.named_limit l
         where l.name = any (p_names)
         union all
        select p_campaign, s.site, p_at_site, array_agg(distinct e.session_id), count(*)
          from unnest(p_sessions) as e (session_id)
         cross join lateral taskq.session_of(e.session_id) s
         where p_at_site is not null
         group by s.site
         order by 1, 2
    loop
        if taskq.starts_in_limit(v_limit.campaign_id, v_limit.name) + v_limit.tasks > v_limit.most then
            perform taskq.freed_in_limit(v_limit.campaign_id, v_limit.name, array(
                select k.row_id
                  from unnest(v_limit.sessions) as s (session_id)
                 cross join lateral (
                     select k.ctid as row_id
                       from taskq.limit_claim k
                      where k.campaign_id = v_limit.campaign_id
                        and k.name = v_limit.name
                        and k.place = hashint8(s.session_id)
                        and k.session_id = s.session_id
                      order by k.number desc
                      limit 1
                 ) k));
        end if;
        if taskq.starts_in_limit(v_limit.campaign_id, v_limit.name) + v_limit.tasks > v_limit.most then
            perform taskq.recount_limit(v_limit.campaign_id, v_limit.name, v_look);
        end if;
        v_left := v_left || v_limit.most - taskq.starts_in_limit(v_limit.campaign_id, v_limit.name);
        v_campaigns := v_campaigns || v_limit.campaign_id;
        v_names := v_names || v_limit.name;
    end loop;
    for v_claim in
        select c.session_id, c.want, s.site, s.slots
          from (
              select e.session_id, count(*) as want, min(e.ord) as ord
                from unnest(p_sessions) with ordinality as e (session_id, ord)
               group by e.session_id
          ) c
         cross join lateral taskq.session_of(c.session_id) s
         order by c.ord
    loop
        v_counting := array(
            select l.ord::integer
              from unnest(v_campaigns, v_names) with ordinality as l (campaign_id, name, ord)
             where l.campaign_id = 0
                or l.name = v_claim.site
             order by l.ord);
        v_gets := v_claim.want;
        foreach i in array v_counting loop
            if v_campaigns[i] = 0 then
                v_slots[i] := v_claim.slots;
                v_held[i] := coalesce((
                    select k.tasks
                      from taskq.limit_claim k
                     where k.campaign_id = 0
                       and k.name = v_names[i]
                       and k.place = hashint8(v_claim.session_id)
                       and k.session_id = v_claim.session_id
                     order by k.number desc
                     limit 1), 0);
            else  -- each task counts, whatever its session holds
                v_slots[i] := v_claim.want;
                v_held[i] := 0;
            end if;
            if least(v_slots[i], v_held[i] + v_gets) - least(v_slots[i], v_held[i]) > v_left[i] then
                v_gets := greatest(0, v_left[i]);
            end if;
        end loop;
        if v_gets < v_claim.want then
            "full" := "full" || v_claim.session_id;
        end if;
        v_gets := least(v_gets, p_room);
        p_room := p_room - v_gets;
        foreach i in array v_counting loop
            v_left[i] := v_left[i] - (least(v_slots[i], v_held[i] + v_gets) - least(v_slots[i], v_held[i]));
        end loop;
        v_sessions := v_sessions || v_claim.session_id;
        v_may := v_may || v_gets;
    end loop;
    select coalesce(array_agg(e.session_id order by e.ord) filter (where e.roomy), '{}'),
           coalesce(array_agg(e.lease_id order by e.ord) filter (where e.roomy), '{}')
      into roomy_sessions, roomy_leases
      from (
          select e.session_id, e.lease_id, e.ord,
                 row_number() over (partition by e.session_id order by e.ord)
                 <= v_may[array_position(v_sessions, e.session_id)] as roomy
            from unnest(p_sessions, p_leases) with ordinality as e (session_id, lease_id, ord)
      ) e;
end
$$;
