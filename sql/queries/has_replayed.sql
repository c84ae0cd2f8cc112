-- Whether this standby has replayed all up to a position of the log.
-- @roles all
-- @standby no
-- @gateway no
select pg_last_wal_replay_lsn() >= %(position)s::pg_lsn as all
