-- end_session(session, why, exit_code, attempts): ends the session of an agent that leaves. Tasks that it still holds
-- are handed out again at once and count neither as failures nor as losses. Idempotent.
--
-- why: a reason for people, of which 2,000 characters are stored; null: none. exit_code: of its process. attempts:
--     how many ran there; null: unknown.
-- Result: how many attempts were handed back.
-- Locks: the row of the session, then as give_back(). Index: session_pkey.
-- @roles serving
-- @plan by-key
create or replace function taskq.end_session(
    p_session bigint,
    p_why text default null,
    p_exit_code integer default null,
    p_attempts integer default null
)
returns integer
language plpgsql
as $$
begin
    -- The lock comes before the clock is read: expire() looks through the sessions that ended since its last call.
    perform
       from taskq.session s
      where s.session_id = p_session
        and s.ended_at is null
        for no key update;
    update taskq.session s
       set ended_at = clock_timestamp(),
           left_why = left(p_why, 2000),
           exit_code = p_exit_code,
           attempts = p_attempts
     where s.session_id = p_session
       and s.ended_at is null;
    return taskq.give_back(p_session, 'released');
end
$$;
