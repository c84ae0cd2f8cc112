-- change_status(path, status): opens, pauses or cancels a campaign. A part of set_status() and begin_stone(), which say
-- what that does; not for clients.
create or replace function taskq.change_status(p_path text, p_status taskq.campaign_status)
returns boolean
language plpgsql
as $$
declare
    v_id bigint;
begin
    perform taskq.campaign_id(p_path);
    if p_status = 'archived' then
        raise exception 'a campaign is archived by taskq campaign archive' using errcode = 'TQ400';
    end if;
    perform taskq.demand_not_archived(a.campaign_id)
       from taskq.campaign c
       join taskq.campaign a on a.campaign_id = c.parent_id
      where c.campaign_id = taskq.campaign_id(p_path);
    if p_status = 'open' then
        perform
           from taskq.archive a
          where a.campaign_id = taskq.campaign_id(p_path)
            and a.restoring is not null;
        if found then
            raise exception 'campaign % is not restored as a whole: repeat taskq campaign restore, or remove it', p_path
                using errcode = 'TQ409';
        end if;
    end if;
    update taskq.campaign c
       set status = p_status,
           paused_why = null
     where c.path = p_path
       and c.status <> p_status
       and (p_status <> 'paused' or c.status = 'open')
 returning c.campaign_id into v_id;
    delete from taskq.archive a
     where a.campaign_id = v_id
       and a.restoring is null;
    if v_id is null and p_status = 'paused' and exists (
        select from taskq.campaign c where c.path = p_path and c.status >= 'cancelled')
    then
        raise exception 'campaign % is % and cannot be paused: it hands out nothing',
            p_path, (select c.status from taskq.campaign c where c.path = p_path)
            using errcode = 'TQ409';
    end if;
    if p_status = 'open' and v_id is not null then
        delete from taskq.stone s where s.campaign_id = v_id and s.removed_at is null;
        insert into taskq.retention (campaign_id, reopened_at)
        values (v_id, clock_timestamp())
            on conflict (campaign_id) do update
           set reopened_at = excluded.reopened_at;
        if taskq.forget_refusals(v_id) then  -- those that could not run it try again at once
            update taskq.campaign c set revision = c.revision + 1 where c.campaign_id = v_id;
        end if;
        perform taskq.begin_window(v_id);
    end if;
    return v_id is not null;
end
$$;
