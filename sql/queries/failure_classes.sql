-- Attempts that failed, were lost, or were refused by a node that cannot run them, by error class: how many, of how many tasks, on which hosts,
-- with the latest as an example; most frequent first. Index: attempt_unsuccessful.
with class as (
    select a.campaign_id, coalesce(a.error_class, '') as error_class, count(*) as attempts,
           count(distinct a.task_id) as tasks, max(a.ended_at) as last_at,
           array_agg(distinct n.host) as hosts,
           (array_agg(a.task_id order by a.ended_at desc))[1] as example_task,
           (array_agg(a.error order by a.ended_at desc))[1] as example_error
      from taskq.attempt a
      join taskq.session n on n.session_id = a.session_id
     where a.campaign_id = %(campaign)s
       and (a.outcome in ('failed', 'lost') or a.refused)
       and a.outcome <> 'done'
     group by a.campaign_id, coalesce(a.error_class, '')
)
select c.error_class, c.attempts, c.tasks, c.last_at, cardinality(c.hosts) as hosts,
       c.hosts[1:5] as some_hosts, c.example_task, s.key as example_key, c.example_error
  from class c
  join taskq.spec s on s.campaign_id = c.campaign_id and s.task_id = c.example_task
 order by c.attempts desc, c.error_class
 limit %(limit)s
