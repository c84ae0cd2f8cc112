-- begin_stone(path, who, retention): cancels a campaign and begins its stone. A part of begin_removal() and
-- begin_retention(), which say what that is; not for clients.
--
-- who: removes it. retention: whether since its time has come.
-- @plan generic by-key
create or replace function taskq.begin_stone(p_path text, p_who text, p_retention boolean)
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
           path, begun_at, campaign_id, removed_by, owner, created_at, archive, digest, by_retention)
    select c.path, clock_timestamp(), c.campaign_id,
           p_who, c.owner, c.created_at, a.place, a.digest, p_retention
      from taskq.campaign c
      left join taskq.archive a on a.campaign_id = c.campaign_id and c.status = 'archived'
     where c.campaign_id = v_id
        on conflict (campaign_id) where removed_at is null do update
       set removed_by = excluded.removed_by,
           by_retention = excluded.by_retention,
           archive = coalesce(excluded.archive, s.archive),
           digest = coalesce(excluded.digest, s.digest);
    perform taskq.change_status(p_path, 'cancelled');
    perform taskq.note_act(
        p_path, 'remove', '{}',
        n.waiting + n.delayed + n.working + n.done + n.failed + n.cancelled, p_who)
       from taskq.counts(p_path, 0) n;
end
$$;
