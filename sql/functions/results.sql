-- results(campaign, after, limit): a page of accepted results, in the order of task ids.
--
-- after, plans: see tasks(). Result: `limit` rows at most; none: there are no more.
-- Index: attempt_pkey, spec_pkey, session_pkey.
-- @roles reader
-- @standby yes
-- @gateway manager, paged
-- @plan generic by-key
create or replace function taskq.results(p_campaign bigint, p_after bigint, p_limit integer)
returns table (
    task_id bigint,
    key text,
    attempt integer,
    claimed_at timestamptz,
    ended_at timestamptz,
    agent text,
    host text,
    site text,
    phases jsonb,
    payload jsonb,
    result jsonb
)
language plpgsql stable
as $$
begin
    return query
        select p.task_id, s.key, p.attempt, p.claimed_at, p.ended_at, n.agent, n.host, n.site,
               p.phases, s.payload, p.result
          from (
              select a.task_id, a.attempt, a.claimed_at, a.ended_at, a.session_id, a.phases, a.result
                from taskq.attempt a
               where a.campaign_id = p_campaign
                 and a.task_id > p_after
                 and a.outcome = 'done'
               order by a.campaign_id, a.task_id
               limit p_limit
          ) p
         cross join lateral taskq.spec_of(p_campaign, p.task_id) s
         cross join lateral taskq.session_of(p.session_id) n
         order by p.task_id;
end
$$;
