-- What the keeper removes within a week: how many campaigns, the first of them, and when; how many of them are to be
-- archived first and their time came an hour ago; and a trouble. Index: retention_due.
-- @roles reader
-- @standby yes
-- @gateway no
select count(*) as campaigns,
       min(r.due_at) as due_at,
       (array_agg(c.path order by r.due_at, c.path))[1] as path,
       count(*) filter (
           where r.archive_first and c.status <> 'archived'
             and r.due_at < clock_timestamp() - interval '1 hour') as not_archived,
       max(r.trouble) as trouble
  from taskq.retention r
 cross join lateral (
     select n.path, n.status from taskq.campaign n where n.campaign_id = r.campaign_id offset 0
 ) c
 where r.due_at < clock_timestamp() + interval '7 days'
