-- Logins with their roles, by name. Logins that have been dropped are left out.
-- @roles reader
-- @standby no
-- @gateway no
with granted as materialized (
    select l.login, array_agg(l.role order by l.role) as roles from taskq.login_role l group by l.login
)
select r.rolname as login, g.roles
  from granted g
  join pg_catalog.pg_roles r on r.oid = g.login
 order by r.rolname
