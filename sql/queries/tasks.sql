-- A page of tasks in the order of their ids, of one status or of all. Index: task_pkey.
select t.task_id, s.key, t.status, t.priority, t.attempt, t.failures, t.losses,
       case when t.status = 'delayed' then t.due_at end as due_at,
       case when t.status = 'working' then t.claimed_at end as claimed_at,
       case when t.status = 'working' then n.host end as host,
       s.payload
  from taskq.task t
  join taskq.spec s on s.campaign_id = t.campaign_id and s.task_id = t.task_id
  left join taskq.session n on n.session_id = t.session_id
 where t.campaign_id = %(campaign)s
   and t.task_id > %(after)s
   and (%(status)s::taskq.task_status is null or t.status = %(status)s::taskq.task_status)
 order by t.campaign_id, t.task_id
 limit %(limit)s
