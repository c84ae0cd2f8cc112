select key, task_id from taskq.task_ids(%(campaign)s, %(keys)s::text[])
