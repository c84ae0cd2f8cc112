-- The server's version and settings, and whether taskq is installed in the database.
-- @roles all
-- @standby no
-- @gateway no
select current_setting('server_version_num')::integer as version,
       current_setting('server_version') as version_text,
       pg_is_in_recovery() as standby,
       current_database() as database,
       current_setting('server_encoding') as encoding,
       to_regclass('taskq.installation') is not null as installed
