-- One migration at a time.
select pg_advisory_xact_lock(hashtextextended('taskq.migrate', 0))
