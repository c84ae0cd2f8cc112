-- set_status(path, status): opens (resumes), pauses or cancels a campaign; what is below it follows,
-- since a claim asks all campaigns from the root down. No further claim succeeds once this has
-- committed.
--
-- Result: whether that changed anything. Cancelling moves no task: call cancel() for each campaign
-- of the subtree until it returns null.
-- Error TQ404: no such campaign.
--
-- Locks: the campaign's row.
create or replace function taskq.set_status(p_path text, p_status taskq.campaign_status)
returns boolean
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    perform taskq.campaign_id(p_path);
    update taskq.campaign c
       set status = p_status
     where c.path = p_path
       and c.status <> p_status;
    return found;
end
$$;
