-- begin_removal(path): cancels a campaign and begins a stone: what will be known of it, with all below, once it is removed.
-- Then call cancel() and remove_tasks() for each campaign of the subtree, and remove_campaign() from the leaves.
--
-- Error TQ404: no such campaign. Error TQ409: the root; or one above it is archived. Idempotent: repeated after an
-- interruption, what was removed before still counts.
--
-- The stone has where the campaign is archived, if it still is as the archive has it. Opening the campaign ends the
-- removal; what was removed by then is in no stone.
--
-- Locks: the campaign's row; see set_status(). Index: campaign_path_key, archive_pkey, stone_unfinished.
-- @roles manager operator
-- @gateway submitter
-- @repeat safe
-- @act remove
-- @plan generic by-key
create or replace function taskq.begin_removal(p_path text)
returns void
language plpgsql
as $$
begin
    perform taskq.begin_stone(p_path, taskq.caller(), false);
end
$$;
