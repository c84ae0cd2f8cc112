-- Attempts back a task's counts of failures and losses: at least as many failed, and were lost; more if an operator
-- has retried the task. A salvaged attempt counts as a loss. The task avoids no more hosts than those of its
-- failures, of its losses but the first, and of attempts that were hedged or withdrawn.
--
-- Parameters, rows: see held.sql. Index: task_pkey, attempt_pkey.
select t.task_id,
       format('failures that count against it: %%s, on %%s hosts, losses: %%s; attempts that failed: %%s, were lost: %%s',
              t.failures, coalesce(cardinality(t.avoids), 0), t.losses, coalesce(a.failed, 0),
              coalesce(a.lost, 0)) as text
  from taskq.states(%(campaign)s, %(after)s, %(upto)s) t
  left join (
      select a.task_id,
             count(*) filter (where a.outcome = 'failed') as failed,
             count(*) filter (where a.outcome::text in ('hedged', 'withdrawn')) as hedged,
             count(*) filter (where taskq.is_loss(a.outcome, a.error_class)) as lost
        from taskq.attempt a
       where a.campaign_id = %(campaign)s
         and a.task_id > %(after)s
         and a.task_id <= %(upto)s
       group by a.task_id
  ) a on a.task_id = t.task_id
 where (t.failures not between 0 and coalesce(a.failed, 0)
        or t.losses not between 0 and coalesce(a.lost, 0)
        or coalesce(cardinality(t.avoids), 0)
           > t.failures + greatest(t.losses - 1, 0) + coalesce(a.hedged, 0))
 order by t.task_id
