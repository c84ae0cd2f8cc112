-- drain_found(path, sites, agents, hosts, dry_run): drain_sessions() without a note of who does it. A part of that and of
-- ban(), which notes its own; not for clients.
--
-- Locks: the sessions, in their order. Index: session_open.
create or replace function taskq.drain_found(
    p_path text, p_sites text[], p_agents text[], p_hosts text[], p_dry_run boolean default false
)
returns integer
language plpgsql
as $$
declare
    v_drained integer;
    v_found bigint[];
begin
    v_found := array(
        select s.session_id
          from taskq.session s
          join taskq.campaign c on c.campaign_id = s.campaign_id
         where s.ended_at is null
           and not s.drain
           and (p_sites is null or s.site = any (p_sites))
           and (p_agents is null or s.agent = any (p_agents))
           and (p_hosts is null or s.host = any (p_hosts))
           and taskq.at_or_below(c.path, p_path));
    if p_dry_run then
        return cardinality(v_found);
    end if;
    with found as materialized (
        select s.session_id
          from taskq.session s
         where s.session_id = any (v_found)
           and s.ended_at is null
           and not s.drain
         order by s.session_id
           for no key update
    )
    update taskq.session s
       set drain = true
      from found f
     where s.session_id = f.session_id;
    get diagnostics v_drained = row_count;
    return v_drained;
end
$$;
