-- frontable(campaigns): of some campaigns, those whose tasks may be leased ahead; see is_frontable().
-- @roles upkeep
create or replace function taskq.frontable(p_campaigns bigint[])
returns setof bigint
language plpgsql stable
as $$
begin
    return query
        select c.campaign_id
          from unnest(p_campaigns) as c (campaign_id)
         where taskq.is_frontable(c.campaign_id);
end
$$;
