-- note_in_limits(campaign, names, at_sites, sessions, leases): notes the claims of agents in a campaign that names limits,
-- or limits how many of its tasks run at each site, one element for each task; see limit_room(). A part of take(); not for
-- clients.
--
-- What the same sessions have ended is forgotten, also under a lease id that is used again. Index: limit_claim_pkey,
-- session_pkey, and those of working_of_claim(); see add_in_limit().
create or replace function taskq.note_in_limits(
    p_campaign bigint,
    p_names text[],
    p_at_sites boolean,
    p_sessions bigint[],
    p_leases uuid[]
)
returns void
language plpgsql
as $$
declare
    v_now_us constant bigint := extract(epoch from clock_timestamp()) * 1000000;
    v_campaigns bigint[];
    v_names text[];
    v_more bigint[];
begin
    with claim as materialized (
        select l.campaign_id, l.name, g.session_id, hashint8(g.session_id) as place, l.slots,
               array_agg(g.lease_id) as leases, array_agg(g.tasks) as counts, sum(g.tasks)::bigint as tasks
          from (
              select g.session_id, g.lease_id, count(*)::integer as tasks
                from unnest(p_sessions, p_leases) as g (session_id, lease_id)
               group by g.session_id, g.lease_id
          ) g
         cross join lateral taskq.session_of(g.session_id) s
         cross join lateral (
             select 0::bigint as campaign_id, n.name, s.slots
               from unnest(p_names) as n (name)
              union all
             select p_campaign, s.site, 2147483647
              where p_at_sites
         ) l
         group by l.campaign_id, l.name, g.session_id, l.slots
    ), noted as materialized (
        select c.campaign_id, c.name, c.session_id, c.place, c.slots, k.row_id,
               coalesce(least(k.slots, k.tasks), 0) as before,
               coalesce(w.campaigns, '{}') || array_fill(p_campaign, array[cardinality(c.leases)]) as campaigns,
               coalesce(w.leases, '{}') || c.leases as leases, coalesce(w.counts, '{}') || c.counts as counts,
               coalesce(w.tasks, 0) + c.tasks as tasks
          from claim c
          left join lateral (
              select k.ctid as row_id, k.campaigns, k.leases, k.counts, k.slots, k.tasks
                from taskq.limit_claim k
               where k.campaign_id = c.campaign_id
                 and k.name = c.name
                 and k.place = c.place
                 and k.session_id = c.session_id
               order by k.number desc
               limit 1
          ) k on true
          left join lateral taskq.kept_claims(c.session_id, k.campaigns, k.leases, k.counts) w on k.tasks > 0
    ), changed as (
        update taskq.limit_claim k
           set number = k.number + 1,
               campaigns = n.campaigns,
               leases = n.leases,
               counts = n.counts,
               slots = n.slots,
               tasks = n.tasks
          from noted n
         where k.ctid = n.row_id
    ), added as (
        insert into taskq.limit_claim (
               campaign_id, name, place, session_id, number, campaigns, leases, counts, slots, tasks)
        select n.campaign_id, n.name, n.place, n.session_id, v_now_us, n.campaigns, n.leases, n.counts, n.slots, n.tasks
          from noted n
         where n.row_id is null
    )
    select array_agg(n.campaign_id), array_agg(n.name), array_agg(n.more) into v_campaigns, v_names, v_more
      from (
          select n.campaign_id, n.name, sum(least(n.slots, n.tasks) - n.before)::bigint as more
            from noted n
           group by n.campaign_id, n.name
      ) n;
    for i in 1 .. cardinality(v_names) loop
        perform taskq.add_in_limit(v_campaigns[i], v_names[i], v_more[i]);
    end loop;
end
$$;
