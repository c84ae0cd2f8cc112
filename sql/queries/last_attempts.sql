select task_id, host, ended_at, error_class
  from taskq.last_attempts(%(campaign)s, %(tasks)s::bigint[])
