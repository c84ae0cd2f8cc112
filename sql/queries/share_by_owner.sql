select taskq.share_by_owner(%(by_owner)s)
