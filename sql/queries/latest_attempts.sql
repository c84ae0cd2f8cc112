select campaign, session_id, host, site, slots, within, outcome, error_class, attempts, tasks, run_s, logs,
       squares, payload_s, first_at, last_at
  from taskq.latest_attempts(%(path)s, %(most)s)
