-- The front as PostgreSQL knows it. refilled: whether a refiller is at work.
-- @roles reader
-- @standby no
-- @gateway no
select taskq.front_name() as name, f.epoch, f.pool_s, f.begun_at, r.until > clock_timestamp() as refilled
  from taskq.front f, taskq.front_refiller r
 where r.only_one
