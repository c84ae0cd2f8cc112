-- end_restore(path, manifest, rows): opens a campaign that is restored as a whole, unless it was paused or cancelled
-- when it was archived.
--
-- If this archive is what is left of a campaign that was removed from this path, its stone goes.
--
-- manifest: see begin_restore(). rows: of the archive. Error TQ409: see restore_rows(), or rows are missing.
--
-- Locks: the campaign's row. Index: archive_pkey, campaign_path_key, stone_pkey.
-- @roles operator
-- @gateway no
-- @act restore
create or replace function taskq.end_restore(p_path text, p_manifest text, p_rows bigint)
returns void
language plpgsql
as $$
declare
    v_id constant bigint := taskq.campaign_id(p_path);
    v_status taskq.campaign_status;
begin
    perform from taskq.campaign c where c.campaign_id = v_id and c.status = 'archived' for no key update;
    if found then
        delete from taskq.archive a
         where a.campaign_id = v_id
           and a.restoring ->> 'manifest' = p_manifest
           and a.restored = p_rows
     returning a.status_before into v_status;
    end if;
    if v_status is null then
        raise exception 'campaign % is not restored as a whole from this archive', p_path using errcode = 'TQ409';
    end if;
    update taskq.campaign c set status = v_status where c.campaign_id = v_id;
    insert into taskq.retention (campaign_id, reopened_at)
    values (v_id, clock_timestamp())
        on conflict (campaign_id) do update
       set reopened_at = excluded.reopened_at;
    delete from taskq.stone s
     where s.path = p_path
       and s.digest = p_manifest
       and s.removed_at is not null;
    perform taskq.note_act(
        p_path, 'restore', '{}', n.waiting + n.delayed + n.working + n.done + n.failed + n.cancelled)
       from taskq.counts(p_path, 0) n;
end
$$;
