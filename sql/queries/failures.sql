-- A page of failed tasks in the order of their ids, each with its last attempt. Index: task_failed.
select s.task_id, s.key, a.attempt, a.claimed_at, a.ended_at, n.agent, n.host, n.site, a.phases,
       s.payload, a.outcome, a.error_class, a.error, a.exit_code
  from taskq.task t
  join taskq.spec s on s.campaign_id = t.campaign_id and s.task_id = t.task_id
  left join taskq.attempt a
    on a.campaign_id = t.campaign_id and a.task_id = t.task_id and a.attempt = t.attempt
  left join taskq.session n on n.session_id = a.session_id
 where t.campaign_id = %(campaign)s
   and t.task_id > %(after)s
   and t.status = 'failed'
 order by t.campaign_id, t.task_id
 limit %(limit)s
