-- What this server has written of its log, and how large this database is, in bytes.
-- @roles all
-- @standby no
-- @gateway no
select (pg_current_wal_insert_lsn() - '0/0'::pg_lsn)::double precision as log,
       pg_database_size(current_database())::double precision as disk
