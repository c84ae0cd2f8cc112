-- unban(kind, name): lifts the ban of a host or site: new sessions are opened there again. Agents with an
-- order to drain still leave. Result: whether there was a ban that had not ended. Index: ban_pkey.
-- @roles operator
-- @gateway no
create or replace function taskq.unban(p_kind text, p_name text)
returns boolean
language plpgsql
as $$
declare
    v_lifted boolean;
begin
    delete from taskq.ban b
     where b.kind = p_kind
       and b.name = p_name
 returning (b.until > clock_timestamp()) is not false into v_lifted;
    return coalesce(v_lifted, false);
end
$$;
