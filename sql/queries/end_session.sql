select taskq.end_session(%(session)s)
