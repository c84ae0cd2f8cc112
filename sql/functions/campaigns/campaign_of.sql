-- campaign_of(campaign): the row of a campaign, by one look-up for each; see session_of(). Index: campaign_pkey.
create or replace function taskq.campaign_of(p_campaign bigint)
returns setof taskq.campaign
language sql stable
as $$
    select c.* from taskq.campaign c where c.campaign_id = p_campaign offset 0
$$;
