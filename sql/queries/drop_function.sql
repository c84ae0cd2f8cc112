-- Drops the function of an earlier release, which has another result under the same arguments.
drop routine taskq.{routine}
