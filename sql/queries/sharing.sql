-- @roles reader
-- @standby yes
-- @gateway manager
select by_owner from taskq.sharing
