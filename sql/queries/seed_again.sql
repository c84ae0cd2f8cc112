select conflicts, named
  from taskq.seed_again(%(campaign)s, %(tasks)s, %(on_conflict)s, %(named)s)
