-- The output files of some tasks.
select task_id, digest, size
  from taskq.outputs_of(%(campaign)s, %(tasks)s::bigint[])
