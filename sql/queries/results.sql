-- A page of accepted results in the order of task ids. Index: attempt_pkey, spec_pkey.
select s.task_id, s.key, a.attempt, a.claimed_at, a.ended_at, n.agent, n.host, n.site, a.phases,
       s.payload, a.result
  from taskq.attempt a
  join taskq.spec s on s.campaign_id = a.campaign_id and s.task_id = a.task_id
  join taskq.session n on n.session_id = a.session_id
 where a.campaign_id = %(campaign)s
   and a.task_id > %(after)s
   and a.outcome = 'done'
 order by a.campaign_id, a.task_id
 limit %(limit)s
