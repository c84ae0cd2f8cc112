-- remove_notify_rule(name): removes a notification rule with its events; what waits is not sent. A message
-- that is under way arrives. Result: whether there was one.
-- @roles operator
-- @gateway no
create or replace function taskq.remove_notify_rule(p_name text)
returns boolean
language plpgsql
as $$
begin
    delete from taskq.notify_rule r where r.name = p_name;
    return found;
end
$$;
