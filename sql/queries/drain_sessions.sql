select taskq.drain_sessions(%(path)s, %(site)s, %(agent)s)
