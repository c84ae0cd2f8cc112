select status, attempt, host, written, output from taskq.follow(%(campaign)s, %(task)s)
