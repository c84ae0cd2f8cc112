-- One migration at a time.
select pg_advisory_xact_lock(hashtext('taskq.migrate'), 0)
