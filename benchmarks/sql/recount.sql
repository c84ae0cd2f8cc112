-- The counts of a campaign, found by looking at all its tasks and attempts.
select t.waiting, t.delayed, t.working, t.done, t.failed, t.cancelled, a.failures, a.losses
  from (select count(*) filter (where status = 'waiting') as waiting,
               count(*) filter (where status = 'delayed') as delayed,
               count(*) filter (where status = 'working') as working,
               count(*) filter (where status = 'done') as done,
               count(*) filter (where status = 'failed') as failed,
               count(*) filter (where status = 'cancelled') as cancelled
          from taskq.state
         where campaign_id = %(campaign)s) t
 cross join (
       select count(*) filter (where outcome = 'failed') as failures,
              count(*) filter (where outcome = 'lost'
                                  or outcome = 'done'
                                 and error_class in ('agent-lost', 'poison')) as losses
         from taskq.attempt
        where campaign_id = %(campaign)s) a
