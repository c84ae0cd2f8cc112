-- may_report(session, owner, campaign): whether a session may report on attempts of another. It may if both
-- are the same; if one token has opened both, since an agent also delivers the reports that a killed agent
-- left in the spool of its node; or if the owner is the pool (0) and the session serves the campaign, since
-- only the agent that got the task knows the lease. A part of settle(); not for clients.
--
-- session: null: a direct client, which may report on all. owner: null: the attempt is nobody's.
-- It compares single values, which are looked up by key; see settle().
create or replace function taskq.may_report(
    p_session bigint,
    p_owner bigint,
    p_campaign bigint
)
returns boolean
language plpgsql stable
as $$
begin
    if p_owner = 0 and p_session is not null then
        return taskq.session_serves(p_session, p_campaign);
    end if;
    return p_session is null
        or coalesce(p_session = p_owner, false)
        or coalesce(
               (select s.token_id from taskq.session s where s.session_id = p_session)
               = (select s.token_id from taskq.session s where s.session_id = p_owner),
               false);
end
$$;
