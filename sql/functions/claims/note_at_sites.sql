-- note_at_sites(campaign, sessions, leases): notes the claims of agents in a campaign that limits how many of
-- its tasks run at each site, one element for each task; see site_room(). A part of take(); not for clients.
--
-- What the same sessions have ended is forgotten, also under a lease id that is used again. Index: site_claim_pkey,
-- session_pkey, and those of working_of_claim(); see add_at_site().
create or replace function taskq.note_at_sites(p_campaign bigint, p_sessions bigint[], p_leases uuid[])
returns void
language plpgsql
as $$
declare
    v_now_us constant bigint := extract(epoch from clock_timestamp()) * 1000000;
    v_sites text[];
    v_more bigint[];
begin
    with claim as materialized (
        select g.session_id, hashint8(g.session_id) as place, s.site, array_agg(g.lease_id) as leases,
               array_agg(g.tasks) as counts, sum(g.tasks)::bigint as tasks
          from (
              select g.session_id, g.lease_id, count(*)::integer as tasks
                from unnest(p_sessions, p_leases) as g (session_id, lease_id)
               group by g.session_id, g.lease_id
          ) g
         cross join lateral taskq.session_of(g.session_id) s
         group by g.session_id, s.site
    ), noted as materialized (
        select c.session_id, c.place, c.site, k.row_id, coalesce(k.tasks, 0) as before,
               coalesce(w.leases, '{}') || c.leases as leases, coalesce(w.counts, '{}') || c.counts as counts,
               coalesce(w.tasks, 0) + c.tasks as tasks
          from claim c
          left join lateral (
              select k.ctid as row_id, k.leases, k.counts, k.tasks
                from taskq.site_claim k
               where k.campaign_id = p_campaign
                 and k.site = c.site
                 and k.place = c.place
                 and k.session_id = c.session_id
               order by k.number desc
               limit 1
          ) k on true
          left join lateral taskq.kept_claims(
              c.session_id, array_fill(p_campaign, array[coalesce(cardinality(k.leases), 0)]), k.leases, k.counts) w
              on k.tasks > 0
    ), changed as (
        update taskq.site_claim k
           set number = k.number + 1,
               leases = n.leases,
               counts = n.counts,
               tasks = n.tasks
          from noted n
         where k.ctid = n.row_id
    ), added as (
        insert into taskq.site_claim (campaign_id, site, place, session_id, number, leases, counts, tasks)
        select p_campaign, n.site, n.place, n.session_id, v_now_us, n.leases, n.counts, n.tasks
          from noted n
         where n.row_id is null
    )
    select array_agg(n.site), array_agg(n.more) into v_sites, v_more
      from (select n.site, sum(n.tasks - n.before)::bigint as more from noted n group by n.site) n;
    for i in 1 .. cardinality(v_sites) loop
        perform taskq.add_at_site(p_campaign, v_sites[i], v_more[i]);
    end loop;
end
$$;
