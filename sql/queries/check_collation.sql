-- By which version of the collation the database's indexes were made, and which there is now; null: it has no versions, as
-- that of the locale C. Before PostgreSQL 15 the server does not note the first.
-- @roles all
-- @standby no
-- @gateway no
select d.datname::text as database, to_jsonb(d) ->> 'datcollversion' as made_by,
       pg_collation_actual_version('pg_catalog."default"'::regcollation) as there
  from pg_database d
 where d.datname = current_database()
