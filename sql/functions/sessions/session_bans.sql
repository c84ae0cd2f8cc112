-- session_bans(session): the campaigns that the agent of a session leaves out, since its host or site is banned for
-- them, as campaign_bans() returns them; null: none. For an agent that has just opened its session; later, the answers
-- to heartbeats have them. Index: session_pkey.
-- @roles agent
create or replace function taskq.session_bans(p_session bigint)
returns jsonb
language sql stable
as $$
    select s.banned from taskq.session s where s.session_id = p_session
$$;
