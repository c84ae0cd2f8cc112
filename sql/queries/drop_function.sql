-- Drops the function of an earlier release, which has another result under the same arguments.
-- @roles owner
drop routine taskq.{routine}
