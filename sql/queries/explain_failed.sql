-- The classes of error of failed tasks in some campaigns at and below a path: of the `limit` that were seeded last in
-- each. error_class: of the last attempt; empty if it has none. key: of the first of these tasks.
-- It reads `limit` attempts a campaign. Index: campaign_pkey, task_failed, attempt_pkey, spec_pkey.
-- @roles reader
-- @standby yes
-- @gateway manager
select f.campaign, f.error_class, f.tasks, s.key
  from (
      select n.path as campaign, coalesce(a.error_class, '') as error_class, count(*) as tasks,
             n.campaign_id, min(t.task_id) as task_id
        from (
            select asked.campaign_id, c.path
              from unnest(%(chosen)s::bigint[]) as asked (campaign_id)
             cross join lateral (
                 select c.path
                   from taskq.campaign c
                  where c.campaign_id = asked.campaign_id
                    and taskq.at_or_below(c.path, %(path)s)
                 offset 0
             ) c
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
       group by n.path, n.campaign_id, coalesce(a.error_class, '')
  ) f
 cross join lateral (
     select s.key
       from taskq.spec s
      where s.campaign_id = f.campaign_id
        and s.task_id >= f.task_id
        and s.task_id <= f.task_id
      order by s.campaign_id, s.task_id
      limit 1
 ) s
 order by f.tasks desc, f.campaign, f.error_class
