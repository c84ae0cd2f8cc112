select taskq.drop_archive(%(digest)s)
