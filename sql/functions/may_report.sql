-- may_report(session, owner): whether a session may report on attempts of another: if it is the
-- same, or if one token has opened both: an agent reports what a killed one has left in the spool
-- of its node. A part of settle(); not for clients.
--
-- session: null: somebody beside the database, who may report on all. owner: null: of nobody's.
-- Single values, which are looked up by key; see settle().
create or replace function taskq.may_report(p_session bigint, p_owner bigint)
returns boolean
language plpgsql stable
as $$
begin
    return p_session is null
        or coalesce(p_session = p_owner, false)
        or coalesce(
               (select s.token_id from taskq.session s where s.session_id = p_session)
               = (select s.token_id from taskq.session s where s.session_id = p_owner),
               false);
end
$$;
