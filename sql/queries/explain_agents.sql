-- The open sessions that serve a campaign, one above or one below it, by kind: what they serve and offer;
-- whether they send heartbeats, drain, or are slowed, and if by judge_hosts(), suspected; their warnings; and the ban
-- that drains them (its kind, name and reason).
-- cause: of their warnings, as one of them says; may be empty.
-- last_until: when the last of them expires if they stay silent; later if this server was promoted meanwhile, see
-- serving_since().
-- Index: session_open, campaign_pkey; the bans are few.
-- @roles reader
-- @standby yes
-- @gateway manager
with living as materialized (
    select c.path as scope, s.offers, s.drain, s.slots, s.host, s.site,
           coalesce((s.said #> '{trouble, failures}')::integer, 0) > 0 or s.suspect is not null as slowed,
           s.suspect is not null as suspected,
           coalesce(s.said #> '{trouble, warnings}', '[]') as warnings, s.said #>> '{trouble, cause}' as cause,
           greatest(s.heartbeat_at, b.since) as heard_at, make_interval(secs => s.lease_s) as lease
      from taskq.session s
     cross join (select pg_postmaster_start_time() as since offset 0) b
     cross join lateral (
         select c.path from taskq.campaign c where c.campaign_id = s.campaign_id offset 0
     ) c
     where s.ended_at is null
       and (taskq.at_or_below(c.path, %(path)s) or taskq.at_or_below(%(path)s, c.path))
), kind as (
    select l.scope, l.offers, l.drain, l.slowed, l.suspected, l.warnings, l.cause, l.heard_at + l.lease / 2 < clock_timestamp() as silent,
           l.slots, l.host, l.site, l.heard_at + l.lease as until,
           case when l.drain then (
               select array[b.kind, b.name, b.why]
                 from taskq.ban b
                where (b.kind, b.name) in (('host', l.host), ('site', l.site))
                  and (b.until > clock_timestamp()) is not false
                  and taskq.at_or_below(l.scope, b.path)
                order by b.kind, b.path
                limit 1) end as banned
      from living l
)
select k.scope, k.offers, k.drain as draining, k.slowed, k.suspected, k.silent, k.warnings, count(*) as agents, sum(k.slots)::bigint as slots,
       count(distinct k.host) as hosts,
       (array_agg(distinct k.host))[1:5] as some_hosts, array_agg(distinct k.site) as sites, k.banned,
       max(k.until) as last_until, coalesce(max(k.cause), '') as cause
  from kind k
 group by k.scope, k.offers, k.drain, k.slowed, k.suspected, k.warnings, k.silent, k.banned
 order by count(*) desc, k.scope, k.offers
 limit %(limit)s
