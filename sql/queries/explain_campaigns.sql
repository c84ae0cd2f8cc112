-- What decides who can claim in some campaigns at and below a path. ahead: tasks leased ahead, among those that are
-- working. tags: those of requires that are no resources. full_sites: sites where as many tasks run as max_running_per_site allows; those that ended since the last
-- claim there still count.
-- Reads no task, and no other campaign. Index: campaign_pkey, front_list_pkey, limit_total_pkey.
-- @roles reader
-- @standby yes
-- @gateway manager
select n.campaign_id, c.has_handler, c.requires, c.time_limit_s, c.max_running, c.owner, c.running_quota, c.weight,
       c.backoff_max_s, c.max_running_per_site, c.named_limits, c.tags, l.full_sites, coalesce(f.entries, 0) as ahead
  from unnest(%(chosen)s::bigint[]) as n (campaign_id)
 cross join lateral (
     select c.handler is not null as has_handler, c.requires, c.time_limit_s,
            c.running_limit as max_running, c.owner, c.running_quota, c.weight, c.backoff_max_s,
            c.max_running_per_site, c.named_limits, c.tags
       from taskq.campaign c
      where c.campaign_id = n.campaign_id
        and taskq.at_or_below(c.path, %(path)s)
     offset 0
 ) c
 cross join lateral (
     select array(
                -- From site to site, by the highest number of each: it meets nothing that was replaced.
                with recursive total as (
                    (select t.name, t.starts
                       from taskq.limit_total t
                      where t.campaign_id = n.campaign_id
                        and c.max_running_per_site is not null
                      order by t.name desc, t.number desc
                      limit 1)
                     union all
                    select o.name, o.starts
                      from total t
                     cross join lateral (
                         select o.name, o.starts
                           from taskq.limit_total o
                          where o.campaign_id = n.campaign_id
                            and o.name < t.name
                          order by o.name desc, o.number desc
                          limit 1
                     ) o
                )
                select t.name
                  from total t
                 where t.starts >= c.max_running_per_site
                 order by t.name) as full_sites
 ) l
  left join lateral (
     select l.entries
       from taskq.front_list l
      where l.campaign_id = n.campaign_id
        and l.entries > 0
     offset 0
 ) f on true
