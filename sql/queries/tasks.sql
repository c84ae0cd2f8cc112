select task_id, key, status, priority, attempt, failures, losses, due_at, claimed_at, host, payload,
       progress, progress_note
  from taskq.tasks(%(campaign)s, %(status)s::taskq.task_status, %(after)s, %(limit)s)
