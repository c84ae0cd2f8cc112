-- Forgets the roles of logins that have been dropped: in a dump they are numbers, which may be others' on another server.
-- @roles owner
delete from taskq.login_role l
 where not exists (select from pg_catalog.pg_roles r where r.oid = l.login)
