select taskq.begin_blob(%(digest)s, %(size)s)
