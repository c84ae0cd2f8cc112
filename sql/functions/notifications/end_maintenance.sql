-- end_maintenance(maintenance): ends a maintenance window now, also one that has not begun.
--
-- Result: whether it had not ended.
-- Error TQ404: no such window, or it is not for this token.
--
-- Locks: its row. Index: maintenance_pkey.
-- @roles manager operator
-- @gateway manager
-- @repeat once
-- @act maintain
create or replace function taskq.end_maintenance(p_maintenance bigint)
returns boolean
language plpgsql
as $$
declare
    v_now constant timestamptz := clock_timestamp();
    v_path text;
begin
    select m.path into v_path
      from taskq.maintenance m
      where m.maintenance_id = p_maintenance
        and taskq.token_covers(m.path)
        for no key update;
    if not found then
        raise exception 'no maintenance window %; `taskq maintenance list` shows all', p_maintenance
            using errcode = 'TQ404';
    end if;
    update taskq.maintenance m
       set begins = least(m.begins, v_now),
           ends = v_now,
           ended_by = taskq.caller()
     where m.maintenance_id = p_maintenance
       and m.ends > v_now;
    if found then
        perform taskq.note_act(v_path, 'maintain', array['window ' || p_maintenance, 'ended']);
        return true;
    end if;
    return false;
end
$$;
