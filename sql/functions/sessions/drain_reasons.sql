-- drain_reasons(sessions): why the agents of draining sessions are kept away, if their host or site is banned; see
-- banned(). Called with the answers to heartbeats that order agents to drain.
-- Index: session_pkey, campaign_pkey, ban_pkey.
-- @roles serving
-- @plan generic by-one-key
create or replace function taskq.drain_reasons(p_sessions bigint[])
returns table (session_id bigint, why text)
language plpgsql stable
as $$
begin
    return query
        select s.session_id, b.why
          from taskq.session s
         cross join lateral (
             select taskq.banned(s.host, s.site, c.path) as why
               from taskq.campaign c
              where c.campaign_id = s.campaign_id
             offset 0
         ) b
         where s.session_id = any (p_sessions)
           and b.why is not null;
end
$$;
