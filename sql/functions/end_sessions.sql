-- end_sessions(sessions, whys, exit_codes): ends the sessions of agents that leave together, with one commit;
-- see end_session().
--
-- sessions, whys, exit_codes: arrays of the same length; see end_session().
-- Locks: as end_session(), the sessions in their order, so that two calls cannot deadlock.
-- Index: as end_session().
-- @roles serving
-- @plan by-key
create or replace function taskq.end_sessions(p_sessions bigint[], p_whys text[], p_exit_codes integer[])
returns void
language plpgsql
as $$
begin
    perform
       from taskq.session s
      where s.session_id = any (p_sessions)
      order by s.session_id
        for no key update;
    perform taskq.end_session(e.session_id, e.why, e.exit_code)
       from unnest(p_sessions, p_whys, p_exit_codes) as e (session_id, why, exit_code);
end
$$;
