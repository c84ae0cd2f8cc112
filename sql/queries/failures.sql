select task_id, key, attempt, claimed_at, ended_at, agent, host, site, phases, payload, outcome,
       error_class, error, exit_code
  from taskq.failures(%(campaign)s, %(after)s, %(limit)s)
