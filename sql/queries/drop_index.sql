select taskq.drop_index(%(path)s, %(part)s, %(field)s)
