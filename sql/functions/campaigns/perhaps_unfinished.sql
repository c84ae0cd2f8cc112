-- perhaps_unfinished(path): the campaigns at and below a path without most of those whose tasks have all ended: of
-- a subtree of at most 1,000 campaigns it returns all.
--
-- So what is read of the others does not grow with the campaigns that a queue has had. Index: campaign_path_key,
-- campaign_pkey; see unfinished_ids().
-- @roles reader
-- @standby yes
-- @gateway no
-- @plan generic by-key
create or replace function taskq.perhaps_unfinished(p_path text)
returns table (campaign_id bigint)
language plpgsql stable
as $$
declare
    v_ids constant bigint[] := taskq.unfinished_ids(p_path);
begin
    if v_ids is null then
        return query
            select c.campaign_id from taskq.subtree(p_path) c;
        return;
    end if;
    return query
        select u.campaign_id
          from unnest(v_ids) as u (campaign_id)
         cross join lateral taskq.campaign_of(u.campaign_id) c
         where taskq.at_or_below(c.path, p_path);
end
$$;
