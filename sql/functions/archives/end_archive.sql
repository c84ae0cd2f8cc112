-- end_archive(path, archive, remove): makes sure that a campaign is still as its archive has it.
--
-- archive: the number that begin_archive() returned. remove: the campaign becomes cancelled, so that remove_tasks() may
--     follow. Error TQ404: no such campaign. Error TQ409: it was resumed since, or removed.
--
-- Locks: the campaign's row. Index: campaign_path_key, archive_pkey.
-- @roles operator
-- @gateway no
create or replace function taskq.end_archive(p_path text, p_archive uuid, p_remove boolean)
returns void
language plpgsql
as $$
declare
    v_id constant bigint := taskq.campaign_id(p_path);
begin
    perform
       from taskq.campaign c
       join taskq.archive a on a.campaign_id = c.campaign_id
      where c.campaign_id = v_id
        and c.status = 'archived'
        and a.number = p_archive
        and a.restoring is null
        for no key update of c;
    if not found then
        raise exception 'campaign % is no longer archived: it may have changed since; archive it anew', p_path
            using errcode = 'TQ409';
    end if;
    if p_remove then
        perform taskq.set_status(p_path, 'cancelled');
    end if;
end
$$;
