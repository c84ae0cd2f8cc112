-- A login of the server, or a group of them; whether the schema is its own, and whether it is a group.
-- @roles all
-- @standby no
-- @gateway no
select r.oid::bigint as login, r.oid = n.nspowner as owns, not r.rolcanlogin as is_group
  from pg_catalog.pg_roles r
 cross join pg_catalog.pg_namespace n
 where r.rolname = %(login)s
   and n.nspname = 'taskq'
