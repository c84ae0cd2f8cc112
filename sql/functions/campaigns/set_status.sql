-- set_status(path, status): opens (resumes), pauses or cancels a campaign, and with it all below, since
-- a claim checks all campaigns from the root down. After a pause or cancellation has committed, no
-- claim that begins later succeeds.
--
-- Result: whether that changed anything. Cancelling moves no task: call cancel() for each campaign
-- of the subtree until it returns null. For a campaign that is opened again, pause_failing() and pause_refused()
-- start again.
-- An archived campaign that is opened or cancelled is no longer archived. A removal ends if the campaign is opened.
-- Error TQ404: no such campaign. Error TQ409: a cancelled or archived campaign cannot be paused; one above it is
--     archived; it is to be opened and not restored as a whole.
--
-- Locks: the campaign's row, that of its pulse, of its stone, of `retention`, those of its refusals and changes.
-- @roles manager operator
-- @gateway manager, wakes
-- @repeat once
-- @act pause resume cancel
create or replace function taskq.set_status(p_path text, p_status taskq.campaign_status)
returns boolean
language plpgsql
as $$
declare
    v_changed constant boolean := taskq.change_status(p_path, p_status);
begin
    if v_changed then
        perform taskq.note_act(
            p_path, case p_status when 'open' then 'resume' when 'paused' then 'pause' else 'cancel' end);
    end if;
    return v_changed;
end
$$;
