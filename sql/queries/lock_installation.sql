-- One migration at a time.
-- @roles owner
select pg_advisory_xact_lock(hashtext('taskq.migrate'), 0)
