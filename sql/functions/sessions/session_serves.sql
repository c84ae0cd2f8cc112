-- session_serves(session, campaign): whether a session is open and serves a campaign: was opened for it or for
-- one above it. A part of may_report() and beat(); not for clients.
create or replace function taskq.session_serves(p_session bigint, p_campaign bigint)
returns boolean
language plpgsql stable
as $$
begin
    return coalesce(
        (select s.campaign_id = any (c.lineage)
           from taskq.session s, taskq.campaign c
          where s.session_id = p_session
            and s.ended_at is null
            and c.campaign_id = p_campaign),
        false);
end
$$;
