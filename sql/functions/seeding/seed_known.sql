-- seed_known(campaign, keys): which of these keys the campaign has already. Index: spec_key_key.
--
-- Key by key: if most campaigns are small, the planner would go through all of a campaign for `key = any (keys)`, and
-- this one may be large.
-- @roles owner
-- @plan generic by-one-key
create or replace function taskq.seed_known(p_campaign bigint, p_keys json)
returns setof text
language plpgsql stable
as $$
begin
    return query
        select s.key
          from json_array_elements_text(p_keys) as k (key)
         cross join lateral (
             select s.key
               from taskq.spec s
              where s.campaign_id = p_campaign
                and s.key = k.key
             offset 0
         ) s;
end
$$;
