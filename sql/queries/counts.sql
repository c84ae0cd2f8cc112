select campaign_id, path, state, paused_why, children, waiting, delayed, working, done, failed,
       cancelled, failures, losses
  from taskq.counts(%(path)s, %(depth)s::integer)
