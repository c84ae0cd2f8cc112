-- The brake on expiry, if it is on. Index: none, it is one row.
-- @roles gateway reader
-- @standby yes
-- @gateway manager
select since, heard_at, until, silent, open
  from taskq.brake
 where since is not null
