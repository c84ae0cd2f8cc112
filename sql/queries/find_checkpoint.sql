-- The checkpoint of a task that is being worked on.
select digest, size
  from taskq.find_checkpoint(%(session)s, %(campaign)s, %(task)s, %(lease)s::uuid)
