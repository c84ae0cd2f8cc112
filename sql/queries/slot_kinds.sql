-- The slots of agents that serve a campaign, one above or one below it, send heartbeats and do not drain, by kind of
-- agent: which campaigns with unfinished tasks at or below the path they can claim in. A slowed agent counts as one
-- slot. is_wider: whether they serve a campaign above the path too, so that others may get the slots. sites: the slots
-- of each site, as an object. Of more than 200 kinds those with most agents.
-- Index: session_open, campaign_pkey; see perhaps_unfinished().
-- @roles reader
-- @standby yes
-- @gateway manager, quiet
with kind as materialized (
    select s.campaign_id, c.path, s.offers, s.site, count(*) as agents,
           sum(case when coalesce((s.said #> '{trouble, failures}')::integer, 0) > 0 or s.suspect is not null then 1
                    else s.slots end)::bigint as slots
      from taskq.session s
     cross join (select pg_postmaster_start_time() as since offset 0) b
     cross join lateral (
         select c.path from taskq.campaign c where c.campaign_id = s.campaign_id offset 0
     ) c
     where s.ended_at is null
       and s.session_id <> 0
       and not s.drain
       and greatest(s.heartbeat_at, b.since) + make_interval(secs => s.lease_s / 2) >= clock_timestamp()
       and (taskq.at_or_below(c.path, %(scope)s) or taskq.at_or_below(%(scope)s, c.path))
     group by s.campaign_id, c.path, s.offers, s.site
), offer as materialized (
    select k.campaign_id, k.path, k.offers, sum(k.slots)::bigint as slots,
           jsonb_object_agg(k.site, k.slots) as sites
      from kind k
     group by k.campaign_id, k.path, k.offers
     order by sum(k.agents) desc
     limit 200
), below as materialized (
    select c.campaign_id, c.lineage, c.requires
      from taskq.perhaps_unfinished(%(scope)s) u
     cross join lateral (
         select c.* from taskq.campaign c where c.campaign_id = u.campaign_id offset 0
     ) c
     where c.handler is not null
), suit as materialized (
    select r.requires, o.campaign_id, o.offers
      from (select distinct b.requires from below b) r
      join offer o on taskq.offered(r.requires, o.offers)
)
select o.slots, o.sites, not taskq.at_or_below(o.path, %(scope)s) as is_wider,
       array(
           select b.campaign_id
             from below b
            where o.campaign_id = any (b.lineage)
              and exists (
                  select
                    from suit t
                   where t.requires = b.requires
                     and t.campaign_id = o.campaign_id
                     and t.offers = o.offers)
            order by b.campaign_id) as campaigns
  from offer o
