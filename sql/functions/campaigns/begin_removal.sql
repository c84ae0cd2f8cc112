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
-- @plan generic by-key
create or replace function taskq.begin_removal(p_path text)
returns void
language plpgsql
as $$
declare
    v_id constant bigint := taskq.campaign_id(p_path);
begin
    if p_path = '/' then
        raise exception 'the root campaign cannot be removed; name those below it' using errcode = 'TQ409';
    end if;
    perform from taskq.campaign c where c.campaign_id = v_id for no key update;
    insert into taskq.stone as s (
           path, begun_at, campaign_id, removed_by, owner, created_at, archive, digest)
    select c.path, clock_timestamp(), c.campaign_id,
           coalesce(taskq.token_setting('token_name'), session_user), c.owner, c.created_at, a.place, a.digest
      from taskq.campaign c
      left join taskq.archive a on a.campaign_id = c.campaign_id and c.status = 'archived'
     where c.campaign_id = v_id
        on conflict (campaign_id) where removed_at is null do update
       set removed_by = excluded.removed_by,
           by_retention = false,
           archive = coalesce(excluded.archive, s.archive),
           digest = coalesce(excluded.digest, s.digest);
    perform taskq.set_status(p_path, 'cancelled');
end
$$;
