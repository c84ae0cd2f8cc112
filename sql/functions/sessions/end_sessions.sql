-- end_sessions(sessions, whys, exit_codes, attempts): ends the sessions of agents that leave together, with one commit;
-- see end_session().
--
-- sessions, whys, exit_codes, attempts: arrays of the same length; see end_session().
-- Locks: as end_session(), the sessions in their order, so that two calls cannot deadlock.
-- Index: as end_session().
-- @roles serving
-- @plan by-key
create or replace function taskq.end_sessions(
    p_sessions bigint[],
    p_whys text[],
    p_exit_codes integer[],
    p_attempts integer[]
)
returns void
language plpgsql
as $$
begin
    perform
       from taskq.session s
      where s.session_id = any (p_sessions)
      order by s.session_id
        for no key update;
    update taskq.session s
       set ended_at = clock_timestamp(),
           left_why = left(e.why, 2000),
           exit_code = e.exit_code,
           attempts = e.attempts
      from unnest(p_sessions, p_whys, p_exit_codes, p_attempts) as e (session_id, why, exit_code, attempts)
     where s.session_id = e.session_id
       and s.ended_at is null;
    -- Nearly all have reported what they held: has_work() costs less than give_back(), which would find nothing.
    perform taskq.give_back(e.session_id, 'released')
       from (select distinct e.session_id from unnest(p_sessions) as e (session_id) order by 1) e
      where taskq.has_work(e.session_id);
end
$$;
