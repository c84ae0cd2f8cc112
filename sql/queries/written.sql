-- How far this server has written its log.
-- @roles all
-- @standby no
-- @gateway no
select pg_current_wal_lsn()::text as position
