-- end_session(session): an agent goes; what it still holds is handed out again at once, counted
-- neither as failure nor as loss. Ending twice changes nothing.
--
-- Result: how many attempts were handed back.
create or replace function taskq.end_session(p_session bigint)
returns integer
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set jit = off
as $$
begin
    update taskq.session s
       set ended_at = clock_timestamp()
     where s.session_id = p_session
       and s.ended_at is null;
    return taskq.give_back(p_session, 'released');
end
$$;
