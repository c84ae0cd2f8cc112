-- What the server's settings let it use of memory, in bytes. is_local: the caller comes by a socket of the same machine.
-- @roles all
-- @standby no
-- @gateway no
select inet_server_addr() is null as is_local,
       pg_size_bytes((select s.setting || s.unit from pg_settings s where s.name = 'shared_buffers')) as buffers,
       pg_size_bytes((select s.setting || s.unit from pg_settings s where s.name = 'work_mem')) as sort,
       pg_size_bytes((select s.setting || s.unit from pg_settings s where s.name = 'maintenance_work_mem')) as vacuum,
       current_setting('autovacuum_max_workers')::integer as vacuums,
       current_setting('max_connections')::integer as connections
