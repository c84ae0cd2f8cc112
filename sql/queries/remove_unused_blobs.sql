select taskq.remove_unused_blobs(%(limit)s, %(age_s)s)
