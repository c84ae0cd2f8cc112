select key from taskq.seed_known(%(campaign)s, %(keys)s::text[]) as key
