-- Logins with their roles, by name. Logins that have been dropped are left out.
-- @roles reader
-- @standby no
-- @gateway no
select r.rolname as login, array_agg(l.role order by l.role) as roles
  from taskq.login_role l
  join pg_catalog.pg_roles r on r.oid = l.login
 group by r.rolname
 order by r.rolname
