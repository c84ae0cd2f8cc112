-- The campaigns at or below one that the keeper removes within a day, the next first, as in retention.sql; among the
-- 1,000 of the whole queue that are next. Index: retention_due, campaign_pkey.
-- @roles reader
-- @standby yes
-- @gateway manager
select c.path, r.ended_at, r.keep_s, r.due_at, r.archive_first, c.status = 'archived' as is_archived, r.trouble
  from (
      select o.*
        from taskq.retention o
       where o.due_at < clock_timestamp() + interval '1 day'
       order by o.due_at
       limit 1000
  ) r
 cross join lateral (
     select n.path, n.status from taskq.campaign n where n.campaign_id = r.campaign_id offset 0
 ) c
 where taskq.at_or_below(c.path, %(path)s)
 order by r.due_at, c.path
 limit %(limit)s
