-- demand_not_archived(campaign): nothing, unless a campaign or one above it is archived, or is being restored. A part of
-- functions that would change it; not for clients.
--
-- Error TQ409: it is. Locks: the key of the campaign's row, shared, so that begin_archive() waits. Index: campaign_pkey.
create or replace function taskq.demand_not_archived(p_campaign bigint)
returns void
language plpgsql
as $$
begin
    perform from taskq.campaign c where c.campaign_id = p_campaign for key share;
    if taskq.campaign_state(p_campaign) = 'archived' then
        raise exception '%; resume it before changes', taskq.cancelled_by(p_campaign) using errcode = 'TQ409';
    end if;
end
$$;
