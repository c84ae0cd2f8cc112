-- All attempts of a task, in order. Index: attempt_pkey.
select a.attempt, a.outcome, a.claimed_at, a.ended_at, n.agent, n.host, n.site, a.exit_code,
       a.error_class, a.error, a.phases, a.result, a.tail
  from taskq.attempt a
  join taskq.session n on n.session_id = a.session_id
 where a.campaign_id = %(campaign)s
   and a.task_id = %(task)s
 order by a.attempt
