-- The hosts and sites with agents that serve a campaign, one above or one below it; those with most slots
-- first. slowed, draining, silent: how many of the agents are. warnings: the different lists that agents report.
-- Index: session_open, campaign_pkey.
-- @roles reader
-- @standby yes
-- @gateway manager, up to 10000000
select s.host, s.site, count(*) as agents, sum(s.slots)::bigint as slots,
       count(*) filter (
           where coalesce((s.said #> '{trouble, failures}')::integer, 0) > 0 or s.suspect is not null) as slowed,
       count(*) filter (where s.drain) as draining,
       count(*) filter (
           where greatest(s.heartbeat_at, pg_postmaster_start_time())
                 + make_interval(secs => s.lease_s / 2) < clock_timestamp()) as silent,
       min(s.suspect) as suspect,
       coalesce(jsonb_agg(distinct s.said #> '{trouble, warnings}') filter (where s.said #> '{trouble, warnings}' is not null), '[]') as warnings
  from taskq.session s
 cross join lateral (
     select c.path from taskq.campaign c where c.campaign_id = s.campaign_id offset 0
 ) c
 where s.ended_at is null
   and (taskq.at_or_below(c.path, %(path)s) or taskq.at_or_below(%(path)s, c.path))
 group by s.host, s.site
 order by sum(s.slots) desc, s.host, s.site
 limit %(limit)s
