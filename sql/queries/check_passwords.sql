-- Logins with roles whose password has ended, or ends within 14 days.
-- @roles reader
-- @standby no
-- @gateway no
select r.rolname::text as login, r.rolvaliduntil as until, r.rolvaliduntil <= clock_timestamp() as has_ended
  from pg_roles r
 where r.rolcanlogin
   and r.rolvaliduntil < clock_timestamp() + interval '14 days'
   and exists (select from taskq.login_role l where l.login = r.oid)
 order by r.rolvaliduntil
 limit 20
