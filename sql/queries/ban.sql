select taskq.ban(%(kind)s, %(place)s, %(why)s, %(lifetime_s)s)
