-- The checkpoint of a task that is being worked on, and how often it has run out of memory.
select digest, size, memory_failures
  from taskq.find_checkpoint(%(session)s, %(campaign)s, %(task)s, %(lease)s::uuid)
