-- Until when ended attempts are in `usage`.
-- @roles reader
-- @standby yes
-- @gateway manager
select until from taskq.summed where only_one
