-- retain(campaign, after, limit): a small step of removing the campaigns whose time has come, see look_at_retention(): some
-- tasks of one campaign are deleted, or that campaign is, or the next one is begun. Called by the keeper, each second.
--
-- campaign, after: as the call before returned them; null and 0 at first. limit: see remove_tasks().
-- path: the campaign that is being removed with all below it; null: there is nothing to do. moved: how many tasks were
--     deleted. removed: whether it is gone now.
--
-- Waits for no lock longer than a second. What is interrupted goes on in another keeper; what somebody resumes stays.
--
-- Locks: the stone; see remove_tasks() and remove_campaign(). Index: stone_unfinished, retention_due, campaign_path_key,
-- archive_pkey.
-- @roles upkeep
-- @plan generic by-key
create or replace function taskq.retain(
    p_campaign bigint, p_after bigint, p_limit integer,
    out campaign bigint, out after bigint, out path text, out moved bigint, out removed boolean)
language plpgsql
as $$
declare
    v_stone taskq.stone;
    v_due bigint;
    v_path text;
begin
    perform set_config('lock_timeout', '1s', true);
    removed := false;
    moved := 0;
    select s.* into v_stone
      from taskq.stone s
     where s.removed_at is null
       and s.by_retention
     order by s.begun_at
     limit 1
       for update skip locked;
    if not found then
        select r.campaign_id, c.path into v_due, path
          from taskq.retention r
         cross join lateral taskq.campaign_of(r.campaign_id) c
         where r.due_at <= clock_timestamp()
           and (not r.archive_first
                or exists (
                    select from taskq.archive a where a.campaign_id = r.campaign_id and a.digest is not null))
         order by r.due_at
         limit 1;
        if not found then
            return;
        end if;
        begin
            if taskq.begin_retention(v_due) then
                return;
            end if;
        exception
            when others then
                update taskq.retention r
                   set due_at = clock_timestamp() + interval '1 hour',
                       trouble = left(sqlerrm, 500)
                 where r.campaign_id = v_due;
        end;
        path := null;
        return;
    end if;
    path := v_stone.path;
    -- A path sorts before those below it, so the last one has none below.
    select c.campaign_id, c.path into campaign, v_path
      from taskq.subtree(v_stone.path) c
     order by c.path desc
     limit 1;
    if campaign is null then
        delete from taskq.stone s where s.campaign_id = v_stone.campaign_id and s.removed_at is null;
        return;
    end if;
    select m.moved, m.last into moved, after
      from taskq.remove_tasks(campaign, case when campaign = p_campaign then p_after else 0 end, p_limit) m;
    if after is null then
        perform taskq.remove_campaign(v_path);
        removed := campaign = v_stone.campaign_id;
        campaign := null;
        after := 0;
    end if;
end
$$;
