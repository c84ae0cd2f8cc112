-- The numbers of logins that have been dropped and still have roles here.
-- @roles reader
-- @standby no
-- @gateway no
select distinct l.login::oid::bigint as login
  from taskq.login_role l
 where not exists (select from pg_catalog.pg_roles r where r.oid = l.login)
 order by 1
