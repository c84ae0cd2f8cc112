-- In which classes of error the failed tasks at and below a path ended: of the `limit` tasks seeded last, for each
-- of the 20 campaigns where most have failed. error_class: of the last attempt; empty if it has none.
-- It costs as much as counts(), and `limit` attempts a campaign. Index: those of counts(), task_failed, attempt_pkey.
-- @roles reader
-- @standby yes
-- @gateway manager
select n.path as campaign, coalesce(a.error_class, '') as error_class, count(*) as tasks
  from (
      select c.campaign_id, c.path
        from taskq.counts(%(path)s, null) c
       where c.failed > 0
       order by c.failed desc, c.path
       limit 20
  ) n
 cross join lateral (
     select t.task_id, t.attempt
       from taskq.task t
      where t.campaign_id = n.campaign_id
        and t.status = 'failed'
      order by t.campaign_id desc, t.task_id desc
      limit %(limit)s
 ) t
 cross join lateral (
     select a.error_class
       from taskq.attempt a
      where a.campaign_id = n.campaign_id
        and a.task_id = t.task_id
        and a.attempt = t.attempt
     offset 0
 ) a
 group by n.path, coalesce(a.error_class, '')
 order by count(*) desc, n.path, coalesce(a.error_class, '')
