-- A login of the server, and whether the schema is its own.
select r.oid::bigint as login, r.oid = n.nspowner as owns
  from pg_catalog.pg_roles r
 cross join pg_catalog.pg_namespace n
 where r.rolname = %(login)s
   and n.nspname = 'taskq'
