select seen, done from taskq.fill_index(%(path)s, %(part)s, %(field)s, %(scan)s)
