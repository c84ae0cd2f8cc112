-- set_pilot_status(name, status): lets a pilot submit jobs (active), stops it (paused), or removes it.
--
-- active: forgets its failures too, so that the next job is submitted at once. removed: no job is submitted
--     any more, those that wait in the batch system are cancelled by the loop, and the pilot goes when its last
--     job has ended; at once if there is none. A pilot that is being removed stays so.
-- Result: how many of its jobs have not ended. Error TQ404: no such pilot. Error TQ409: it is being removed.
-- @roles manager operator
-- @gateway manager
-- @repeat once
-- @act pilot
create or replace function taskq.set_pilot_status(p_name text, p_status text)
returns integer
language plpgsql
as $$
declare
    v_pilot record;
    v_live integer;
begin
    select p.pilot_id, p.path, p.status, p.failures into v_pilot
      from taskq.pilot p
     where p.name = p_name
       and taskq.token_covers(p.path)
       for update;
    if not found then
        raise exception 'no pilot %; `taskq pilot list` shows what there is', p_name
            using errcode = 'TQ404';
    elsif v_pilot.status = 'removed' and p_status <> 'removed' then
        raise exception 'the pilot % is being removed', p_name using errcode = 'TQ409';
    end if;
    select count(*) into v_live
      from taskq.pilot_job j
     where j.pilot_id = v_pilot.pilot_id
       and j.status <> 'ended';
    if p_status = 'removed' and v_live = 0 then
        delete from taskq.pilot p where p.pilot_id = v_pilot.pilot_id;
        perform taskq.note_act(v_pilot.path, 'pilot', array[p_name, p_status]);
        return 0;
    end if;
    update taskq.pilot p
       set status = p_status,
           paused_why = null,
           failures = case when p_status = 'active' then 0 else p.failures end,
           trouble = case when p_status = 'active' then null else p.trouble end,
           retry_at = case when p_status = 'active' then null else p.retry_at end
     where p.pilot_id = v_pilot.pilot_id;
    if p_status <> v_pilot.status or p_status = 'active' and v_pilot.failures > 0 then
        perform taskq.note_act(v_pilot.path, 'pilot', array[p_name, p_status]);
    end if;
    return v_live;
end
$$;
