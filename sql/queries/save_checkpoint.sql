-- Make a blob the checkpoint of a task that is being worked on.
select saved, replaced
  from taskq.save_checkpoint(
      %(session)s, %(campaign)s, %(task)s, %(lease)s::uuid, %(digest)s, %(size)s)
