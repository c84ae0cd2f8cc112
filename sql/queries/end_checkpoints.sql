-- Forget checkpoints of tasks that are final.
select digests, last_campaign, last_task
  from taskq.end_checkpoints(%(campaign)s, %(task)s, %(most)s)
