-- note_in_limits(names, campaign, sessions, leases): notes the claims of agents in a campaign with named limits, one
-- element for each task; see limit_room(). A part of take(); not for clients.
--
-- A lease id that is used again has no row any more: limit_room() has forgotten it. Index: limit_claim_pkey,
-- session_pkey.
create or replace function taskq.note_in_limits(
    p_names text[],
    p_campaign bigint,
    p_sessions bigint[],
    p_leases uuid[]
)
returns void
language sql
as $$
    insert into taskq.limit_claim (name, session_id, lease_id, campaign_id, slots, tasks)
    select n.name, g.session_id, g.lease_id, p_campaign, s.slots, g.tasks
      from (
          select g.session_id, g.lease_id, count(*) as tasks
            from unnest(p_sessions, p_leases) as g (session_id, lease_id)
           group by g.session_id, g.lease_id
      ) g
     cross join lateral taskq.session_of(g.session_id) s
     cross join unnest(p_names) as n (name)
$$;
