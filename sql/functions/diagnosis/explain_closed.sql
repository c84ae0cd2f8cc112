-- explain_closed(path, limit): the campaigns that are not open, above, at and below one, from the top. Of very many, those
-- that were cancelled or archived and have neither unfinished tasks nor campaigns below them are left out.
--
-- Index: campaign_path_key, campaign_pkey, campaign_closed; see perhaps_unfinished().
-- @roles all
-- @standby yes
-- @gateway manager
-- @plan generic by-key
create or replace function taskq.explain_closed(p_path text, p_limit integer)
returns table (path text, status text, paused_why text)
language plpgsql stable
as $$
begin
    return query
        select f.path, f.status::text, f.paused_why
          from (
              select a.path, a.status, a.paused_why
                from taskq.campaign c
               cross join lateral unnest(c.lineage) as l (campaign_id)
               cross join lateral taskq.campaign_of(l.campaign_id) a
               where c.path = p_path
                 and a.status <> 'open'
               union all
              select b.path, b.status, b.paused_why
                from taskq.perhaps_unfinished(p_path) u
               cross join lateral taskq.campaign_of(u.campaign_id) b
               where b.status <> 'open'
                 and b.path <> p_path
               union
              (select b.path, b.status, b.paused_why
                 from taskq.campaign b
                where (b.status = 'paused' or b.status <> 'open' and b.has_below)
                  and b.path > rtrim(p_path, '/') || '/'
                  and b.path < rtrim(p_path, '/') || '0'
                order by b.path
                limit p_limit)
          ) f
         order by f.path
         limit p_limit;
end
$$;
