-- A delayed task knows when it is due: the keeper finds it by that.
--
-- Parameters, rows: see held.sql. Index: task_pkey.
select t.task_id, 'it is delayed, but not until any time' as text
  from taskq.states(%(campaign)s, %(after)s, %(upto)s) t
 where t.status::text = 'delayed'
   and t.due_at is null
 order by t.task_id
