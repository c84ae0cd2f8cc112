select attempt, outcome, claimed_at, ended_at, agent, host, site, exit_code, error_class, error, phases,
       result, tail
  from taskq.attempts(%(campaign)s, %(task)s)
