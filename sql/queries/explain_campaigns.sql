-- What decides who can claim in some campaigns at and below a path. ahead: tasks leased ahead, among those that are
-- working. full_sites: sites where as many tasks run as max_running_per_site allows; those that ended since the last
-- claim there still count.
-- Reads no task, and no other campaign. Index: campaign_pkey, front_list_pkey, site_claim_site.
-- @roles reader
-- @standby yes
-- @gateway manager
select n.campaign_id, c.has_handler, c.requires, c.time_limit_s, c.max_running, c.owner, c.running_quota, c.weight,
       c.backoff_max_s, c.max_running_per_site, c.named_limits, l.full_sites, coalesce(f.entries, 0) as ahead
  from unnest(%(chosen)s::bigint[]) as n (campaign_id)
 cross join lateral (
     select c.handler is not null as has_handler, c.requires, c.time_limit_s,
            c.running_limit as max_running, c.owner, c.running_quota, c.weight, c.backoff_max_s,
            c.max_running_per_site, c.named_limits
       from taskq.campaign c
      where c.campaign_id = n.campaign_id
        and taskq.at_or_below(c.path, %(path)s)
     offset 0
 ) c
 cross join lateral (
     select array(
                select k.site
                  from taskq.site_claim k
                 where k.campaign_id = n.campaign_id
                   and c.max_running_per_site is not null
                 group by k.site
                having sum(k.tasks) >= c.max_running_per_site
                 order by k.site) as full_sites
 ) l
  left join lateral (
     select l.entries
       from taskq.front_list l
      where l.campaign_id = n.campaign_id
        and l.entries > 0
     offset 0
 ) f on true
