select taskq.seed_begin(%(campaign)s)
