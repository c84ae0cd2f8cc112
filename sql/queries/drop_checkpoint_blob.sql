select taskq.drop_checkpoint_blob(%(digest)s)
