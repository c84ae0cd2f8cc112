select taskq.end_message(%(holder)s::uuid, %(rule)s, %(events)s::uuid[], %(trouble)s, %(host)s)
