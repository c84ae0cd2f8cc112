-- The age of the oldest transaction of each database, in transactions and in multixacts; the oldest first.
-- @roles all
-- @standby no
-- @gateway no
select d.datname::text as name, age(d.datfrozenxid)::bigint as age, mxid_age(d.datminmxid)::bigint as multixacts,
       current_setting('autovacuum_freeze_max_age')::bigint as due
  from pg_database d
 order by greatest(age(d.datfrozenxid), mxid_age(d.datminmxid)) desc
 limit 3
