-- This connection's server process, and whether it was reached by a socket of this machine. Like
-- timeline_and_pid.sql, it sets the isolation that the queue needs, whatever the login or database has set.
-- @roles all
-- @standby no
-- @gateway no
select pg_backend_pid() as pid, inet_server_addr() is null as here,
       set_config('default_transaction_isolation', 'read committed', false) as isolation
