select taskq.end_blob(%(blob)s)
