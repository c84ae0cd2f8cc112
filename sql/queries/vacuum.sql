-- Vacuums the tables of this database that the login may, and renews what is known of them.
-- @roles all
-- @standby no
-- @gateway no
vacuum (analyze)
