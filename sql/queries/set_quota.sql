select taskq.set_quota(%(owner)s, %(quota)s::jsonb)
