-- part_usage(campaign): keeps what a campaign has used apart from its attempts, of which some are being removed; until
-- then the audit compares both. A part of remove_tasks(), which has locked the row of `summed`; not for clients.
--
-- Locks: the rows of the campaign. Index: campaign_pkey, usage_pkey.
-- @plan by-key
create or replace function taskq.part_usage(p_campaign bigint)
returns void
language plpgsql
as $$
begin
    with gone as (
        delete from taskq.usage u
         using taskq.campaign_of(p_campaign) c
         where u.path = c.path
           and u.campaign_id = p_campaign
     returning u.*
    )
    insert into taskq.usage as u (
           path, grain, since, campaign_id, owner, site, outcome, attempts, run_ms, core_ms)
    select g.path, g.grain, g.since, -p_campaign, g.owner, g.site, g.outcome, g.attempts, g.run_ms, g.core_ms
      from gone g
        on conflict (path, grain, since, campaign_id, owner, site, outcome) do update
       set attempts = u.attempts + excluded.attempts,
           run_ms = u.run_ms + excluded.run_ms,
           core_ms = u.core_ms + excluded.core_ms;
end
$$;
