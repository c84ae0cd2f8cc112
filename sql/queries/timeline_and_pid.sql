-- The number of the server, which rises when another takes over, see functions/timeline.sql; and the process that
-- answers, which shows whether a pooler is in between. A connection begins with this statement, so it also sets the
-- isolation that the queue needs: PgBouncer refuses that among the parameters of a connection. Behind PgBouncer the
-- setting may not last until the next transaction; then demand_read_committed() says what to do.
-- @roles all
-- @standby no
-- @gateway no
select taskq.timeline() as timeline, pg_backend_pid() as pid,
       set_config('default_transaction_isolation', 'read committed', false) as isolation
