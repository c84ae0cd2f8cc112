-- The server processes of all connections to this database; of none where the server is on another
-- machine.
select a.pid
  from pg_stat_activity a
 where a.datname = current_database()
   and a.backend_type = 'client backend'
   and inet_server_addr() is null
