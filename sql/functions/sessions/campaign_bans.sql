-- campaign_bans(host, site, path): the campaigns below `path` for which a host or site is banned now, as a JSON array
-- of {"path", "why"}; null: none. Agents that serve `path` leave them out; not for clients. Index: ban_pkey.
create or replace function taskq.campaign_bans(p_host text, p_site text, p_path text)
returns jsonb
language sql stable
as $$
    select jsonb_agg(jsonb_build_object('path', b.path, 'why', b.why) order by b.path, b.kind)
      from taskq.bans_at(p_host, p_site) b
     where taskq.at_or_below(b.path, p_path)
       and b.path <> p_path
$$;
