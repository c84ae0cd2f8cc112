select taskq.submit(%(path)s, %(tasks)s)
