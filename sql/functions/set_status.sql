-- set_status(path, status): opens (resumes), pauses or cancels a campaign; what is below it follows,
-- since a claim asks all campaigns from the root down. No claim that begins after this has
-- committed succeeds.
--
-- Result: whether that changed anything. Cancelling moves no task: call cancel() for each campaign
-- of the subtree until it returns null.
-- Error TQ404: no such campaign. Error TQ409: a cancelled campaign cannot be paused.
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
       and c.status <> p_status
       and (p_status <> 'paused' or c.status = 'open');
    if not found and p_status = 'paused' and exists (
        select from taskq.campaign c where c.path = p_path and c.status = 'cancelled')
    then
        raise exception 'campaign % is cancelled and hands out nothing', p_path
            using errcode = 'TQ409';
    end if;
    return found;
end
$$;
