select moved, last from taskq.cancel(%(campaign)s, %(tasks)s::bigint[], %(after)s, %(limit)s, false)
