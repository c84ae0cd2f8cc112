-- A done task has exactly one accepted outcome; a task that is not done has none.
--
-- Parameters, rows: see held.sql. Index: task_pkey, attempt_pkey.
select t.task_id,
       format('it is %%s; attempts that are done: %%s', t.status, coalesce(a.done, 0)) as text
  from taskq.states(%(campaign)s, %(after)s, %(upto)s) t
  left join (
      select a.task_id, count(*) as done
        from taskq.attempt a
       where a.campaign_id = %(campaign)s
         and a.task_id > %(after)s
         and a.task_id <= %(upto)s
         and a.outcome = 'done'
       group by a.task_id
  ) a on a.task_id = t.task_id
 where coalesce(a.done, 0) <> (t.status::text = 'done')::integer
 order by t.task_id
