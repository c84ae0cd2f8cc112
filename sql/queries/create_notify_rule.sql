select taskq.create_notify_rule(%(rule)s, %(path)s, %(events)s::text[], %(target)s, %(after_s)s)
