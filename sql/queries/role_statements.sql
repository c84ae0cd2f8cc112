-- Statements that make the roles of this queue on another server: of its owner, of logins with roles and the
-- members of groups among them, and of all that have grants in the schema; then who is a member of which of them. A role
-- that is there is left as it is: its line selects the statement, for psql to execute (is_selected). Passwords, and what
-- makes a superuser, are not among them. Reads catalogs.
-- @roles reader
-- @standby no
-- @gateway no
with recursive home as materialized (
    select n.oid, n.nspowner from pg_namespace n where n.nspname = 'taskq'
), its as (
    select 'pg_namespace'::regclass as classid, h.oid as objid from home h
     union all
    select 'pg_class'::regclass, c.oid from pg_class c join home h on h.oid = c.relnamespace
     union all
    select 'pg_proc'::regclass, p.oid from pg_proc p join home h on h.oid = p.pronamespace
), known (role) as (
    select h.nspowner from home h
     union
    select l.login::oid from taskq.login_role l
     union
    select d.refobjid
      from pg_shdepend d
      join its i on i.classid = d.classid and i.objid = d.objid
     where d.dbid = (select b.oid from pg_database b where b.datname = current_database())
       and d.refclassid = 'pg_authid'::regclass
     union
    select m.member from known k join pg_auth_members m on m.roleid = k.role
), role as materialized (
    select r.*
      from known k
      join pg_roles r on r.oid = k.role
     where r.rolname not like 'pg@_%%' escape '@'
), made as (
    select 1 as part, r.rolname::text as name, '' as member,
           concat_ws(' ', 'create role', quote_ident(r.rolname), case when r.rolcanlogin then 'login' end,
                     case when not r.rolinherit then 'noinherit' end,
                     case when r.rolconnlimit <> -1 then 'connection limit ' || r.rolconnlimit end,
                     case when r.rolvaliduntil is not null then 'valid until ' || quote_literal(r.rolvaliduntil) end)
           as statement
      from role r
     union all
    select 2, g.rolname, r.rolname, format('grant %%I to %%I', g.rolname, r.rolname)
      from pg_auth_members m
      join role g on g.oid = m.roleid
      join role r on r.oid = m.member
)
select case m.part
           when 1 then format('select %%L where not exists (select from pg_roles where rolname = %%L)', m.statement,
                              m.name)
           else m.statement end as statement, m.part = 1 as is_selected
  from made m
 group by m.part, m.name, m.member, m.statement
 order by m.part, m.name, m.member
