select changed, unchanged, others
  from taskq.prioritise(%(campaign)s, %(tasks)s::bigint[], %(priorities)s::smallint[])
