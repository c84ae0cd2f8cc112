select task_id, value, result
  from taskq.result_sample(%(campaign)s, %(field)s, %(stretches)s, %(each)s)
