-- @roles all
-- @standby no
-- @gateway no
select has_table_privilege('taskq.spec', 'insert') as may_copy
