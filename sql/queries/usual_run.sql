select attempts, mean_s from taskq.usual_run(%(campaign)s, %(most)s)
