select moved, last
  from taskq.retriable(
      %(campaign)s, %(status)s::taskq.task_status, %(error_class)s, %(tasks)s::bigint[],
      %(after)s, %(limit)s)
