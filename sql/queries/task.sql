-- One task by its id, of whichever campaign below a path.
select t.campaign_id, c.path, t.task_id, s.key, t.status, t.priority, t.attempt, t.failures,
       t.losses, t.due_at, s.payload
  from taskq.campaign c
  join taskq.spec s on s.campaign_id = c.campaign_id
  join taskq.task t on t.campaign_id = s.campaign_id and t.task_id = s.task_id
 where c.path = %(path)s
   and s.task_id = %(task)s
