-- The campaigns at and below a path with unfinished tasks, those first in which most wait, and how many
-- there are; with what decides who can claim in them. ahead: leased ahead, among those that are working.
-- Reads no task; it costs as much as counts(). Index: those of counts(), campaign_pkey, front_list_pkey.
select n.path, n.state::text, n.waiting, n.delayed, n.working, c.has_handler, c.requires, c.time_limit_s,
       c.max_running, c.owner, c.running_quota, c.weight, c.backoff_max_s, coalesce(f.entries, 0) as ahead,
       count(*) over () as campaigns
  from taskq.counts(%(path)s, null) n
 cross join lateral (
     select c.handler is not null as has_handler, c.requires, c.time_limit_s,
            c.running_limit as max_running, c.owner, c.running_quota, c.weight, c.backoff_max_s
       from taskq.campaign c
      where c.campaign_id = n.campaign_id
     offset 0
 ) c
  left join lateral (
     select l.entries
       from taskq.front_list l
      where l.campaign_id = n.campaign_id
        and l.entries > 0
     offset 0
 ) f on true
 where n.waiting + n.delayed + n.working > 0
 order by n.waiting desc, n.path
 limit %(limit)s
