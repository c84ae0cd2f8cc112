-- The accepted results of some tasks: see results_of(). A gateway can be asked to answer only when one of the tasks has
-- ended, or the time is up: `?wait_s=SECONDS`. An answer without rows before that says that one has ended otherwise.
-- @roles reader
-- @standby yes
-- @gateway manager, waits
select * from taskq.results_of(%(campaign)s::bigint, %(tasks)s::bigint[])
