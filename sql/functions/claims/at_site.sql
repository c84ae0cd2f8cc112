-- at_site(campaign, site): how many tasks of a campaign count at a site, of which some may have ended. A part of
-- site_room(); not for clients. Index: site_total_pkey.
create or replace function taskq.at_site(p_campaign bigint, p_site text)
returns bigint
language plpgsql stable
as $$
begin
    return coalesce((
        select t.tasks
          from taskq.site_total t
         where t.campaign_id = p_campaign
           and t.site = p_site
         order by t.number desc
         limit 1), 0);
end
$$;
