-- site_room(campaign, limit, sessions, leases): which claims have room in a campaign that limits how many of
-- its tasks run at each site. A part of take(), after room_to_run(), whose lock it needs; not for clients.
--
-- sessions, leases: one element for each task that is wanted. limit: the campaign's max_running_per_site.
-- roomy_sessions, roomy_leases: those of them for which there is room, in order.
-- full: the sessions that get less than they want, since as many run at their site; or null.
--
-- The limit holds exactly for tasks that are claimed while it is set. A claim notes its tasks, see
-- note_at_sites(), and reports do not. While there is room by the sum of what was noted, nothing is looked at. If there is
-- too little, this function finds what has ended, in a snapshot taken after the wait for the lock, so it may see an end
-- late, never early. It looks at the claims of the same sessions, since agents claim when they report. If that
-- leaves too little room, it looks at those of some other sessions at the site, from a place drawn at random: at 1,000, and
-- then for ten times as long as that took at 100 only; a setting keeps that, like the hint of pick(). Others wait
-- for the lock meanwhile. If more tasks than that run at a site, a later claim may find what ended: claims without room
-- come again every two seconds, see `avoided` in take().
--
-- Agents that name no site count as one site. Index: site_claim_pkey, session_pkey; see at_site(), freed_at_site().
create or replace function taskq.site_room(
    p_campaign bigint,
    p_limit integer,
    p_sessions bigint[],
    p_leases uuid[],
    out roomy_sessions bigint[],
    out roomy_leases uuid[],
    out "full" bigint[]
)
language plpgsql
as $$
declare
    v_began_us constant bigint := extract(epoch from clock_timestamp()) * 1000000;
    v_setting text := 'taskq.site_look_' || p_campaign;
    v_until constant bigint := nullif(current_setting(v_setting, true), '')::bigint;
    v_look constant integer :=
        case when v_began_us between v_until - 10000000 and v_until then 100 else 1000 end;
    v_looked boolean := false;
    v_asked record;
    v_sites text[] := '{}';
    v_rooms bigint[] := '{}';
    v_room bigint;
begin
    for v_asked in
        select s.site, count(*) as tasks, array_agg(distinct e.session_id) as sessions
          from unnest(p_sessions) as e (session_id)
         cross join lateral taskq.session_of(e.session_id) s
         group by s.site
    loop
        v_room := p_limit - taskq.at_site(p_campaign, v_asked.site);
        if v_room < v_asked.tasks then
            v_room := v_room + taskq.freed_at_site(p_campaign, v_asked.site, array(
                select k.row_id
                  from unnest(v_asked.sessions) as o (session_id)
                 cross join lateral (
                     select k.ctid as row_id
                       from taskq.site_claim k
                      where k.campaign_id = p_campaign
                        and k.site = v_asked.site
                        and k.place = hashint8(o.session_id)
                        and k.session_id = o.session_id
                      order by k.number desc
                      limit 1
                 ) k));
        end if;
        if v_room < v_asked.tasks then
            v_looked := true;
            v_room := v_room + taskq.freed_at_site(p_campaign, v_asked.site, array(
                select k.row_id from taskq.claims_at_site(p_campaign, v_asked.site, v_look) k (row_id)));
        end if;
        v_sites := v_sites || v_asked.site;
        v_rooms := v_rooms || v_room;
    end loop;
    if v_looked and v_look > 100 then
        v_setting := set_config(
            v_setting,
            (v_began_us + least(
                10000000,
                10 * (extract(epoch from clock_timestamp()) * 1000000 - v_began_us)))::bigint::text,
            false);
    end if;
    select coalesce(array_agg(e.session_id order by e.ord) filter (where e.roomy), '{}'),
           coalesce(array_agg(e.lease_id order by e.ord) filter (where e.roomy), '{}'),
           array_agg(distinct e.session_id) filter (where not e.roomy)
      into roomy_sessions, roomy_leases, "full"
      from (
          select e.session_id, e.lease_id, e.ord,
                 row_number() over (partition by s.site order by e.ord)
                 <= v_rooms[array_position(v_sites, s.site)] as roomy
            from unnest(p_sessions, p_leases) with ordinality as e (session_id, lease_id, ord)
           cross join lateral taskq.session_of(e.session_id) s
      ) e;
end
$$;
