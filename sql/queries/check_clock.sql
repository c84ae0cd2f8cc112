-- The server's time, in seconds since the epoch.
-- @roles all
-- @standby no
-- @gateway no
select extract(epoch from clock_timestamp())::double precision as server_s
