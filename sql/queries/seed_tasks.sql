select added, conflicts, named
  from taskq.seed_tasks(%(path)s, %(tasks)s, %(on_conflict)s, %(named)s)
