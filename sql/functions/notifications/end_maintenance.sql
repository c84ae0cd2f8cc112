-- end_maintenance(maintenance): ends a maintenance window now, also one that has not begun.
--
-- Result: whether it had not ended.
-- Error TQ404: no such window, or it is not for this token.
--
-- Locks: its row. Index: maintenance_pkey.
-- @roles manager operator
-- @gateway manager
-- @repeat once
create or replace function taskq.end_maintenance(p_maintenance bigint)
returns boolean
language plpgsql
as $$
declare
    v_now constant timestamptz := clock_timestamp();
begin
    perform
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
    return found;
end
$$;
