-- The number of the server, which rises when another takes over; see functions/timeline.sql. And the
-- process that answers, by which a pooler in between is seen. A connection begins with it, so it also sets the
-- isolation that the queue needs: PgBouncer refuses that among the parameters of a connection. Behind one, where it
-- may not hold for the next transaction, demand_read_committed() tells what to do.
-- @roles all
-- @standby no
-- @gateway no
select taskq.timeline() as timeline, pg_backend_pid() as pid,
       set_config('default_transaction_isolation', 'read committed', false) as isolation
