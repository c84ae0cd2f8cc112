-- campaign_state(campaign): open, or paused or cancelled if the campaign or one above it is; null if there is
-- no such campaign. Index: campaign_pkey.
create or replace function taskq.campaign_state(p_campaign bigint)
returns taskq.campaign_status
language plpgsql stable
as $$
begin
    return (
        select max(a.status)
          from taskq.campaign c
          join taskq.campaign a on a.campaign_id = any (c.lineage)
         where c.campaign_id = p_campaign);
end
$$;
