-- failures(campaign, after, limit): a page of failed tasks, in the order of their ids, each with its
-- last attempt, if that is known.
--
-- after, plans: see tasks(). Result: `limit` rows at most; none: there are no more.
-- Index: task_failed, spec_pkey, attempt_pkey, session_pkey.
-- @roles reader
-- @standby yes
-- @gateway manager, paged
-- @plan generic by-key
create or replace function taskq.failures(p_campaign bigint, p_after bigint, p_limit integer)
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
    outcome taskq.attempt_outcome,
    error_class text,
    error text,
    exit_code integer
)
language plpgsql stable
as $$
begin
    return query
        select p.task_id, s.key, a.attempt, a.claimed_at, a.ended_at, n.agent, n.host, n.site,
               a.phases, s.payload, a.outcome, a.error_class, a.error, a.exit_code
          from (
              select t.task_id, t.attempt
                from taskq.task t
               where t.campaign_id = p_campaign
                 and t.task_id > p_after
                 and t.status = 'failed'
               order by t.campaign_id, t.task_id
               limit p_limit
          ) p
         cross join lateral taskq.spec_of(p_campaign, p.task_id) s
          left join lateral taskq.attempt_of(p_campaign, p.task_id, p.attempt) a on true
          left join lateral taskq.session_of(a.session_id) n on true
         order by p.task_id;
end
$$;
