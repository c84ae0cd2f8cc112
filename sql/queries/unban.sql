select taskq.unban(%(kind)s, %(place)s)
