select tasks, last
  from taskq.done_within(%(campaign)s, %(firsts)s::bigint[], %(lasts)s::bigint[], %(scan)s)
