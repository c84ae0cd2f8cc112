-- The campaigns at and below a path that are being seeded, have no handler, or whose tasks no agent at work can
-- claim. In a large queue those without unfinished tasks are left out. served: whether an agent that sends heartbeats and does not drain serves them. lacking: the required tags
-- that no such agent offers, or all of them if none offers them together. If there are more than 200 kinds of agents,
-- not all are looked at, and no tags are lacking.
-- Index: session_open, campaign_pkey; see perhaps_unfinished().
-- @roles reader
-- @standby yes
-- @gateway manager
with kind as materialized (
    select s.campaign_id, s.offers
      from taskq.session s
     cross join (select pg_postmaster_start_time() as since offset 0) b
     cross join lateral (
         select c.path from taskq.campaign c where c.campaign_id = s.campaign_id offset 0
     ) c
     where s.ended_at is null
       and not s.drain
       and greatest(s.heartbeat_at, b.since) + make_interval(secs => s.lease_s / 2) >= clock_timestamp()
       and (taskq.at_or_below(c.path, %(path)s) or taskq.at_or_below(%(path)s, c.path))
     group by s.campaign_id, s.offers
     order by count(*) desc
     limit 201
), below as materialized (
    select c.campaign_id, c.lineage, c.requires, c.handler is not null as has_handler,
           c.seeded_at > clock_timestamp() - interval '10 s' as seeding
      from taskq.perhaps_unfinished(%(path)s) u
     cross join lateral (
         select c.* from taskq.campaign c where c.campaign_id = u.campaign_id offset 0
     ) c
), suit as materialized (
    select r.requires, k.campaign_id
      from (select distinct b.requires from below b) r
      join kind k on taskq.offered(r.requires, k.offers) or (select count(*) from kind) > 200
     group by r.requires, k.campaign_id
), found as (
    select b.*, exists (
               select
                 from suit t
                where t.requires = b.requires
                  and t.campaign_id = any (b.lineage)) as claimed,
           exists (select from kind k where k.campaign_id = any (b.lineage)) as served
      from below b
)
select f.campaign_id, f.seeding, f.has_handler, f.served,
       case when f.claimed then '{}'
            else coalesce(
                nullif(array(
                    select r.tag
                      from unnest(f.requires) as r (tag)
                     where not exists (
                         select from kind k where taskq.offered(array[r.tag], k.offers))), '{}'),
                f.requires)
       end as lacking
  from found f
 where f.seeding
    or not f.has_handler
    or not f.claimed
