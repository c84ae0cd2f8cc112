select taskq.remove_tasks(%(campaign)s, %(limit)s)
