-- Lets the statements of this transaction wait for locks for so long at most.
-- @roles all
-- @standby no
-- @gateway no
select set_config('lock_timeout', %(lock_timeout)s, true)
