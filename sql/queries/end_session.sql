select taskq.end_session(%(session)s, %(why)s, %(exit_code)s::integer)
