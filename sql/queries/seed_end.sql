select taskq.seed_end(%(campaign)s, %(above)s)
