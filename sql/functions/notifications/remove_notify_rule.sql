-- remove_notify_rule(name): removes a notification rule with its events; what waits is not sent. A message
-- that is under way arrives. Result: whether there was one.
-- @roles operator
-- @gateway no
-- @act notify
create or replace function taskq.remove_notify_rule(p_name text)
returns boolean
language plpgsql
as $$
declare
    v_path text;
begin
    delete from taskq.notify_rule r where r.name = p_name returning r.path into v_path;
    if found then
        perform taskq.note_act(v_path, 'notify', array[p_name, 'removed']);
        return true;
    end if;
    return false;
end
$$;
