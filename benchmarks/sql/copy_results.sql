copy (
    select s.key, s.payload, a.result, a.attempt, n.host, a.claimed_at, a.ended_at
      from taskq.attempt a
      join taskq.spec s on (s.campaign_id, s.task_id) = (a.campaign_id, a.task_id)
      join taskq.session n on n.session_id = a.session_id
     where a.outcome = 'done'
     order by a.campaign_id, a.task_id
) to stdout
