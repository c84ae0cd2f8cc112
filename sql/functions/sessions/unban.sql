-- unban(kind, name): ends the ban of a host or site now: new sessions are opened there again. Agents with an
-- order to drain still leave. The row stays, since failures from before accuse nobody, see attempt_sample().
--
-- Result: whether there was a ban that had not ended. Index: ban_pkey.
-- @roles operator
-- @gateway no
create or replace function taskq.unban(p_kind text, p_name text)
returns boolean
language plpgsql
as $$
declare
    v_now constant timestamptz := clock_timestamp();
begin
    update taskq.ban b
       set until = v_now
     where b.kind = p_kind
       and b.name = p_name
       and (b.until > v_now) is not false;
    return found;
end
$$;
