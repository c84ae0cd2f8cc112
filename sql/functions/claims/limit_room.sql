-- limit_room(names, sessions, leases): which claims have room in the named limits of a campaign. A part of take(),
-- after room_to_run(); not for clients.
--
-- names: of the limits. sessions, leases: one element for each task that is wanted.
-- roomy_sessions, roomy_leases: those of them for which there is room, in order.
-- full: the sessions that get less than they want, since a limit is reached; or null.
--
-- A limit bounds starts over all campaigns that name it, see starts_in_limit(). It holds exactly for tasks that are
-- claimed while their campaign names it: claims of such campaigns wait for each other, from here to their commit. A
-- claim notes its tasks, see note_in_limits(), and reports do not. While there is room by the sum of what was noted,
-- nothing is looked at. If there is too little, this function finds what has ended, in a snapshot taken after the wait for
-- the locks, so it may see an end late, never early. It looks at the claims of the same sessions, since agents claim when
-- they report, and if that leaves too little room at those of some others; the keeper looks at all, see free_limits().
--
-- A name without a limit, which was removed meanwhile, limits nothing.
--
-- Locks: those of the limits, in one order, behind those of room_to_run(). Index: limit_claim_pkey, named_limit_pkey,
-- session_pkey.
create or replace function taskq.limit_room(
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
    v_name text;
    v_most integer;
    v_names text[] := '{}';
    v_left bigint[] := '{}';
    v_claim record;
    v_held bigint[];
    v_slots integer;
    v_gets bigint;
    v_sessions bigint[] := '{}';
    v_may bigint[] := '{}';
begin
    perform pg_advisory_xact_lock(hashtext('taskq.limit'), l.key)
       from (select distinct hashtext(n.name) as key from unnest(p_names) as n (name) order by 1) l;
    foreach v_name in array p_names loop
        select l.most into v_most from taskq.named_limit l where l.name = v_name;
        continue when not found;
        if taskq.starts_in_limit(v_name) + cardinality(p_sessions) > v_most then
            perform taskq.freed_in_limit(v_name, array(
                select k.row_id
                  from (select distinct unnest(p_sessions) as session_id) s
                 cross join lateral (
                     select k.ctid as row_id
                       from taskq.limit_claim k
                      where k.name = v_name
                        and k.place = hashint8(s.session_id)
                        and k.session_id = s.session_id
                      order by k.number desc
                      limit 1
                 ) k));
        end if;
        if taskq.starts_in_limit(v_name) + cardinality(p_sessions) > v_most then
            perform taskq.freed_in_limit(v_name, array(
                select k.row_id from taskq.claims_in_limit(v_name, v_look) k));
        end if;
        v_names := v_names || v_name;
        v_left := v_left || v_most - taskq.starts_in_limit(v_name);
    end loop;
    for v_claim in
        select e.session_id, count(*) as want
          from unnest(p_sessions) with ordinality as e (session_id, ord)
         group by e.session_id
         order by min(e.ord)
    loop
        select s.slots into v_slots from taskq.session_of(v_claim.session_id) s;
        v_gets := v_claim.want;
        v_held := '{}';
        for i in 1 .. cardinality(v_names) loop
            v_held := v_held || coalesce((
                select k.tasks
                  from taskq.limit_claim k
                 where k.name = v_names[i]
                   and k.place = hashint8(v_claim.session_id)
                   and k.session_id = v_claim.session_id
                 order by k.number desc
                 limit 1), 0);
            if least(v_slots, v_held[i] + v_gets) - least(v_slots, v_held[i]) > v_left[i] then
                v_gets := greatest(0, v_left[i]);
            end if;
        end loop;
        for i in 1 .. cardinality(v_names) loop
            v_left[i] := v_left[i] - (least(v_slots, v_held[i] + v_gets) - least(v_slots, v_held[i]));
        end loop;
        v_sessions := v_sessions || v_claim.session_id;
        v_may := v_may || v_gets;
    end loop;
    select coalesce(array_agg(e.session_id order by e.ord) filter (where e.roomy), '{}'),
           coalesce(array_agg(e.lease_id order by e.ord) filter (where e.roomy), '{}'),
           array_agg(distinct e.session_id) filter (where not e.roomy)
      into roomy_sessions, roomy_leases, "full"
      from (
          select e.session_id, e.lease_id, e.ord,
                 row_number() over (partition by e.session_id order by e.ord)
                 <= v_may[array_position(v_sessions, e.session_id)] as roomy
            from unnest(p_sessions, p_leases) with ordinality as e (session_id, lease_id, ord)
      ) e;
end
$$;
