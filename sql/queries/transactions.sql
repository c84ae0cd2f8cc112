-- How many transactions the database has committed, as the server knew within the last second or so: how busy it is.
-- @roles all
-- @standby no
-- @gateway manager
-- @repeat safe
select d.xact_commit as transactions
  from pg_stat_database d
 where d.datname = current_database()
