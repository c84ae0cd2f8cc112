select campaign, error_class, attempts, tasks, again, then_done
  from taskq.failing_tasks(%(path)s, %(most)s)
