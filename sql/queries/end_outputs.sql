-- Forget the output files of attempts that were not accepted.
select digests, last_campaign, last_task
  from taskq.end_outputs(%(campaign)s, %(task)s, %(most)s)
