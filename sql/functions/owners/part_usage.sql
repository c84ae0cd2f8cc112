-- part_usage(campaign): keeps what a campaign has used apart from its attempts, of which some are being removed; until
-- then the audit compares both. A part of remove_tasks(), which has locked the row of `summed`; not for clients.
--
-- Locks: the rows of the campaign, see add_used(). Index: campaign_pkey, usage_pkey.
-- @plan by-key
create or replace function taskq.part_usage(p_campaign bigint)
returns void
language plpgsql
as $$
declare
    v_gone taskq.usage[];
begin
    with gone as (
        delete from taskq.usage u
         using taskq.campaign_of(p_campaign) c
         where u.path = c.path
           and u.campaign_id = p_campaign
     returning u.*
    )
    select array_agg((g.path, g.grain, g.since, -g.campaign_id, g.owner, g.site, g.outcome, g.attempts, g.run_ms,
                      g.core_ms, g.gpu_ms)::taskq.usage)
      into v_gone
      from gone g;
    perform taskq.add_used(v_gone);
end
$$;
