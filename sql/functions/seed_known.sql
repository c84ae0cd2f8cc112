-- seed_known(campaign, keys): which of these keys the campaign has already. Index: spec_key_key.
create or replace function taskq.seed_known(p_campaign bigint, p_keys text[])
returns setof text
language plpgsql stable
security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
as $$
begin
    return query
        select s.key
          from taskq.spec s
         where s.campaign_id = p_campaign
           and s.key = any (p_keys);
end
$$;
