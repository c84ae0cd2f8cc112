-- The folder of the server's data, if the caller runs on the same machine and may know it; no row otherwise.
-- @roles all
-- @standby no
-- @gateway no
select s.setting as folder
  from pg_settings s
 where s.name = 'data_directory'
   and inet_server_addr() is null
