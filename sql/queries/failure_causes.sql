select error_class, cause, attempts, tasks, causes, last_at, hosts, some_hosts, example_task, example_key,
       example_error, example_line
  from taskq.failure_causes(%(campaign)s, %(limit)s)
