select taskq.submit(%(path)s, %(tasks)s, %(on_conflict)s)
