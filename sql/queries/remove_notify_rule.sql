select taskq.remove_notify_rule(%(rule)s)
