select task_id, key, attempt, claimed_at, ended_at, agent, host, site, phases, payload, result
  from taskq.results(%(campaign)s, %(after)s, %(limit)s)
