-- session_of(session): the row of a session, by one look-up for each: `offset 0` keeps it apart from the
-- statement into which it is inlined, as task_state() is. A part of other functions, as all that end in _of and
-- have no @roles; not for clients. Index: session_pkey.
create or replace function taskq.session_of(p_session bigint)
returns setof taskq.session
language sql stable
as $$
    select n.* from taskq.session n where n.session_id = p_session offset 0
$$;
