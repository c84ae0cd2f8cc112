select taskq.complete(%(path)s, %(task)s, %(lease)s::uuid)
