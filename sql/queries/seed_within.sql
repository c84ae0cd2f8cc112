select taskq.seed_within(%(campaign)s, %(low)s, %(high)s)
