-- kept_claims(session, campaigns, leases, counts): those of some claims of a session of which tasks still run, with how
-- many; inlined, see session_of(). A part of freed_in_limit(), note_in_limits() and others; not for clients.
--
-- Index: those of working_of_claim().
create or replace function taskq.kept_claims(
    p_session bigint,
    p_campaigns bigint[],
    p_leases uuid[],
    p_counts integer[]
)
returns table (campaigns bigint[], leases uuid[], counts integer[], tasks bigint)
language sql stable
as $$
    select coalesce(array_agg(c.campaign_id order by c.ord) filter (where c.working > 0), '{}'),
           coalesce(array_agg(c.lease_id order by c.ord) filter (where c.working > 0), '{}'),
           coalesce(array_agg(c.working order by c.ord) filter (where c.working > 0), '{}'),
           coalesce(sum(c.working), 0)::bigint
      from (
          select u.campaign_id, u.lease_id, u.ord, least(u.tasks, w.working)::integer as working
            from unnest(p_campaigns, p_leases, p_counts) with ordinality as u (campaign_id, lease_id, tasks, ord)
           cross join lateral taskq.working_of_claim(u.campaign_id, p_session, u.lease_id) w
          offset 0
      ) c
    offset 0
$$;
