-- idle_agents(scopes): the agents that have free slots and nothing that they could claim, by kind: agents of a kind
-- were opened for the same one of these campaigns, and offer the same. A part of hedge(), which pins the settings;
-- not for clients.
--
-- Result: at most 16 kinds, those with most free slots first. slots: how many are free. first_host, last_host: the
--     first and the last of the hosts that they are on, by name.
-- An agent counts if it was heard within its lease, does not drain, is not slowed and names its host.
-- claimable() says whether it could claim something, as for agents that wait in a gateway.
--
-- Goes through the open sessions, at most 10,000. Index: session_open, task_working, bundle_pkey; those of
-- claimable().
create or replace function taskq.idle_agents(p_scopes bigint[])
returns table (scope bigint, offers text[], slots bigint, first_host text, last_host text)
language plpgsql
as $$
declare
    v_now constant timestamptz := clock_timestamp();
    v_since constant timestamptz := taskq.serving_since();
    v_kinds jsonb;
    v_busy jsonb;
begin
    select jsonb_agg(to_jsonb(k))
      into v_kinds
      from (
          select s.campaign_id as scope, c.path, s.offers, sum(s.slots - s.in_hand) as slots,
                 min(s.host) as first_host, max(s.host) as last_host
            from (
                select s.campaign_id, s.offers, s.slots, s.host, taskq.in_hand(s.session_id) as in_hand
                  from (
                      select s.session_id, s.campaign_id, s.offers, s.slots, s.host, s.drain, s.said,
                             s.suspect, s.heartbeat_at, s.lease_s
                        from taskq.session s
                       where s.ended_at is null
                       order by s.session_id
                       limit 10000
                  ) s
                 where s.campaign_id = any (p_scopes)
                   and s.host <> ''
                   and not s.drain
                   and coalesce((s.said #> '{trouble, failures}')::integer, 0) = 0
                   and s.suspect is null
                   and greatest(s.heartbeat_at, v_since) + make_interval(secs => s.lease_s) > v_now
                offset 0
            ) s
           cross join lateral taskq.campaign_of(s.campaign_id) c
           where s.slots > s.in_hand
           group by s.campaign_id, c.path, s.offers
           order by sum(s.slots - s.in_hand) desc
           limit 16
      ) k;
    if v_kinds is null then
        return;
    end if;
    v_busy := jsonb_path_query_array((taskq.claimable(v_kinds, true)).claimable, '$[*][0][*]');
    return query
        select (k.kind ->> 'scope')::bigint, array(select jsonb_array_elements_text(k.kind -> 'offers')),
               (k.kind ->> 'slots')::bigint, k.kind ->> 'first_host', k.kind ->> 'last_host'
          from jsonb_array_elements(v_kinds) with ordinality as k (kind, number)
         where not v_busy @> to_jsonb(k.number - 1);
end
$$;
