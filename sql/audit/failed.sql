-- The last attempt of a failed task failed, or its agent was lost.
--
-- Parameters, rows: see held.sql. Index: task_pkey, attempt_pkey.
select t.task_id, format('it is failed, but its last attempt was %%s', a.outcome) as text
  from taskq.states(%(campaign)s, %(after)s, %(upto)s) t
  join taskq.attempt a
    on a.campaign_id = t.campaign_id
   and a.task_id = t.task_id
   and a.attempt = t.attempt
 where a.campaign_id = %(campaign)s
   and a.task_id > %(after)s
   and a.task_id <= %(upto)s
   and t.status::text = 'failed'
   and a.outcome not in ('failed', 'lost')
 order by t.task_id
