-- end_archive(path, archive, place, digest, remove): makes sure that a campaign is still as its archive has it, and notes
-- where that was verified.
--
-- archive: the number that begin_archive() returned. place, digest: of the archive: its folder or address, and the digest
--     of its manifest. remove: its removal begins, see begin_removal(). Error TQ404: no such campaign. Error TQ409: it was resumed since, or removed.
--
-- Locks: the campaign's row, and that of the archive. Index: campaign_path_key, archive_pkey.
-- @roles operator
-- @gateway no
-- @act remove
create or replace function taskq.end_archive(p_path text, p_archive uuid, p_place text, p_digest text, p_remove boolean)
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
    update taskq.archive a set place = p_place, digest = p_digest where a.campaign_id = v_id;
    if p_remove then
        perform taskq.begin_removal(p_path);
    end if;
end
$$;
