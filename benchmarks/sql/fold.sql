select taskq.fold(%(rest)s::interval)
