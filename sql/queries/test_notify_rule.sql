select taskq.test_notify_rule(%(rule)s)
