-- note_at_sites(campaign, sessions, leases): notes the claims of agents in a campaign that limits how many of
-- its tasks run at each site, one element for each task; see site_room(). A part of take(); not for clients.
--
-- A lease id that is used again has no row any more: site_room() has forgotten it. Index: site_claim_pkey,
-- session_pkey.
create or replace function taskq.note_at_sites(p_campaign bigint, p_sessions bigint[], p_leases uuid[])
returns void
language sql
as $$
    insert into taskq.site_claim (campaign_id, session_id, lease_id, site, tasks)
    select p_campaign, g.session_id, g.lease_id, s.site, g.tasks
      from (
          select g.session_id, g.lease_id, count(*) as tasks
            from unnest(p_sessions, p_leases) as g (session_id, lease_id)
           group by g.session_id, g.lease_id
      ) g
     cross join lateral taskq.session_of(g.session_id) s
$$;
