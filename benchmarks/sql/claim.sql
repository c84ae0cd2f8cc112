select task_id
  from taskq.claim(%(path)s, %(session)s, %(lease)s::uuid, %(want)s)
