-- The first statement of a read-only transaction in which all statements see the same snapshot.
-- @roles all
-- @standby no
-- @gateway no
set transaction isolation level repeatable read, read only
