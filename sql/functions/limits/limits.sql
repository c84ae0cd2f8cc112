-- limits(within): the named limits, with what counts towards each; see limit_room().
--
-- within: show only campaigns at and below these paths, which are those that the caller may see. A manager's token sees
--     only its campaigns. For /, all limits are there, else those that such a campaign names.
-- most: see set_limit(), as owners, which are null for all, and where not all campaigns may be seen. used: how many
--     starts run of these campaigns. is_full: whether none of their tasks is handed out now, since as many run as may,
--     wherever. campaigns: how many of them name it. holders: those whose tasks count, those with most first, five at
--     most, as objects with path and tasks, of which an agent may hold more than it has slots.
--
-- It costs look-ups for each campaign that names a limit, and for each claim that counts.
-- Index: campaign_named, limit_claim_pkey, named_limit_pkey, campaign_pkey, and those of working_of_claim().
-- @roles gateway reader
-- @standby yes
-- @gateway manager
-- @plan generic by-one-key
create or replace function taskq.limits(p_within text[] default '{/}')
returns table (
    name text,
    most integer,
    owners text[],
    used bigint,
    is_full boolean,
    campaigns bigint,
    holders jsonb
)
language plpgsql stable
set enable_mergejoin = off
as $$
declare
    v_shown constant integer := 5;
    v_whole constant boolean := taskq.token_covers('/') and '/' = any (p_within);
begin
    return query
        with held as materialized (
            select l.name, k.session_id, k.slots, w.working, c.path,
                   taskq.token_covers(c.path) and exists (
                       select from unnest(p_within) as w (path) where taskq.at_or_below(c.path, w.path)) as is_seen
              from taskq.named_limit l
             cross join lateral taskq.claims_in_limit(0, l.name, null) k
             cross join lateral unnest(k.campaigns, k.leases) as u (campaign_id, lease_id)
             cross join lateral taskq.working_of_claim(u.campaign_id, k.session_id, u.lease_id) w
             cross join lateral taskq.campaign_of(u.campaign_id) c
             where w.working > 0
        ), start as materialized (
            select s.name, taskq.total(least(s.slots, s.seen)) as seen, taskq.total(least(s.slots, s.tasks)) as starts
              from (
                  select h.name, max(h.slots) as slots, taskq.total(h.working) as tasks,
                         taskq.total(h.working) filter (where h.is_seen) as seen
                    from held h
                   group by h.name, h.session_id
              ) s
             group by s.name
        ), holder as materialized (
            select h.name, h.path, taskq.total(h.working) as tasks,
                   row_number() over (partition by h.name order by sum(h.working) desc, h.path) as place
              from held h
             where h.is_seen
             group by h.name, h.path
        ), own as materialized (
            select n.name, count(*) as campaigns
              from taskq.campaign c
             cross join lateral unnest(c.named_limits) as n (name)
             where c.named_limits <> '{}'
               and taskq.token_covers(c.path)
               and exists (select from unnest(p_within) as w (path) where taskq.at_or_below(c.path, w.path))
             group by n.name
        )
        select l.name, l.most, case when v_whole then l.owners end, coalesce(s.seen, 0),
               coalesce(s.starts, 0) >= l.most, coalesce(o.campaigns, 0),
               (select coalesce(jsonb_agg(jsonb_build_object('path', h.path, 'tasks', h.tasks) order by h.place), '[]')
                  from holder h
                 where h.name = l.name
                   and h.place <= v_shown)
          from taskq.named_limit l
          left join own o on o.name = l.name
          left join start s on s.name = l.name
         where v_whole or o.campaigns > 0
         order by l.name;
end
$$;
