-- Vacuums the tables of this database that the login may vacuum, and renews their statistics.
-- @roles all
-- @standby no
-- @gateway no
vacuum (analyze)
