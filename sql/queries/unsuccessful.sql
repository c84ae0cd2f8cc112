select task_id, status
  from taskq.unsuccessful(%(campaign)s, %(tasks)s::bigint[])
