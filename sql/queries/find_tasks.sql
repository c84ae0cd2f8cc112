select task_id, matches, looked, key, status, priority, attempt, failures, losses, due_at, claimed_at, host,
       payload, progress, progress_note
  from taskq.find_tasks(
      %(campaign)s, %(filter)s::jsonb, %(states)s::text[], %(parts)s::text[],
      %(payloads)s, %(after)s, %(limit)s)
