-- sort_claims(campaign, requires, sessions, leases, wants): separates the claims of one call: repeated ones,
-- and those of agents that do not offer what the campaign requires. A part of take(), for calls that have such
-- claims; not for clients.
--
-- refused: the sessions that have ended or never were.
-- answered: the tasks of claims that were answered before, as take() returns them.
-- sessions, leases, wants: the claims that remain.
create or replace function taskq.sort_claims(
    p_campaign bigint,
    p_requires text[],
    p_sessions bigint[],
    p_leases uuid[],
    p_wants integer[],
    out refused bigint[],
    out answered json,
    out sessions bigint[],
    out leases uuid[],
    out wants integer[]
)
language plpgsql
as $$
begin
    with claim as materialized (
        -- Single values, which are looked up by key; `exists` and joins would be planned by the
        -- share of working tasks, see settle().
        select c.*,
               coalesce((
                   select true
                     from taskq.session s
                    where s.session_id = c.session_id
                      and s.ended_at is null), false) as live,
               coalesce((
                   select taskq.offered(p_requires, s.offers)
                     from taskq.session s
                    where s.session_id = c.session_id), false) as fit,
               coalesce((
                   select true
                     from taskq.task t
                    where t.session_id = c.session_id
                      and t.lease_id = c.lease_id
                      and t.status = 'working'
                    limit 1), (
                   select true
                     from taskq.bundle b
                    where b.session_id = c.session_id
                      and b.lease_id = c.lease_id
                    limit 1), false) as answered
          from unnest(p_sessions, p_leases, p_wants)
               with ordinality as c (session_id, lease_id, want, ord)
    )
    select array_agg(c.session_id) filter (where not c.live),
           array_agg(c.session_id order by c.ord) filter (where c.live and c.fit and not c.answered),
           array_agg(c.lease_id order by c.ord) filter (where c.live and c.fit and not c.answered),
           array_agg(c.want order by c.ord) filter (where c.live and c.fit and not c.answered),
           (select json_agg(
                       json_build_array(
                           t.lease_id, t.task_id, t.attempt, s.key, s.payload, a.session_id))
              from claim a
              cross join lateral (
                  select t.lease_id, t.task_id, t.attempt
                    from taskq.task t
                   where t.session_id = a.session_id
                     and t.lease_id = a.lease_id
                     and t.status = 'working'
                     and t.campaign_id = p_campaign
                   union all
                  select b.lease_id, h.task_id, 1
                    from taskq.bundle b
                   cross join lateral unnest(b.tasks) as h (task_id)
                   where b.session_id = a.session_id
                     and b.lease_id = a.lease_id
                     and b.campaign_id is not distinct from p_campaign  -- see beat()
                  offset 0
              ) t
              cross join lateral taskq.spec_of(p_campaign, t.task_id) s
             where a.live and a.answered)
      into refused, sessions, leases, wants, answered
      from claim c;
end
$$;
