select taskq.index_results(%(path)s, %(part)s, %(field)s)
