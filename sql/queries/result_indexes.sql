select campaign, field, seen, done, ranked, large, created_at
  from taskq.result_indexes(%(path)s)
