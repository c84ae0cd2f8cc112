select rule, path, target, attempts, events
  from taskq.take_messages(%(holder)s::uuid, %(host)s, %(reaches)s::text[], %(most)s)
