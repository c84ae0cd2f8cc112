-- Make a blob the output files of an attempt.
select saved, replaced
  from taskq.save_output(
      %(session)s, %(campaign)s, %(task)s, %(lease)s::uuid, %(digest)s, %(size)s)
