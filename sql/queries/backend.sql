-- This connection's server process, and whether it was reached by a socket of this machine.
-- @roles all
-- @standby no
-- @gateway no
select pg_backend_pid() as pid, inet_server_addr() is null as here
