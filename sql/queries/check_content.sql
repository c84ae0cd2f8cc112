-- What differs in the schema from what its files have; each catalog is read once. Reads catalogs, without what every
-- database has: its oids are lower.
--
-- subject `functions`: functions that are not as their files have them. texts: by name, the digest of each body with what
-- it runs as and under which settings. state: missing, changed, foreign (not one of taskq's), or whose it is, if not the
-- schema's owner's.
--
-- subject `rights`: rights that logins (name; empty: all of them) have in the schema and should not have, or lack: as
-- PostgreSQL has them, whatever the roles that were granted. asked: for each set of roles its logins, the functions they
-- may execute, and the columns they may read ("table.column"; "table." for all of them). Logins that may do all are left
-- out.
-- @roles all
-- @standby no
-- @gateway no
with home as materialized (
    select n.oid, n.nspowner, n.nspacl from pg_namespace n where n.nspname = 'taskq'
), asked as materialized (
    select r.oid as login, r.rolname::text as name, g.value as its
      from json_array_elements(%(asked)s::json) g (value)
     cross join json_array_elements_text(g.value -> 'logins') l (name)
      join pg_roles r on r.rolname = l.name
     cross join home h
     where not r.rolsuper
       and not pg_has_role(r.oid, h.nspowner, 'usage')
), function as materialized (
    select p.oid, p.proname::text as name, p.proowner as owner, p.proacl, p.prokind,
           md5(concat_ws('|', p.prosrc, p.prosecdef::text,
                         (select string_agg(c.c, '|' order by c.c collate "C") from unnest(p.proconfig) c (c)))) as text
      from pg_proc p
      join home h on h.oid = p.pronamespace
     where p.oid >= 16384
), relation as materialized (
    select c.oid, c.relname::text as name, c.relowner as owner, c.relacl
      from pg_class c
      join home h on h.oid = c.relnamespace
     where c.relkind in ('r', 'p', 'v', 'S')
), attribute as materialized (
    select t.attrelid, t.attname, t.attacl from pg_attribute t where t.attrelid >= 16384 and t.attacl is not null
), reading as materialized (
    select a.login, a.name, split_part(w.place, '.', 1) as relation, split_part(w.place, '.', 2) as attribute
      from asked a
     cross join json_array_elements_text(a.its -> 'columns') w (place)
), executing as materialized (
    select a.login, a.name, w.function
      from asked a
     cross join json_array_elements_text(a.its -> 'functions') w (function)
), given as (
    select f.owner, a.grantee, a.privilege_type as privilege, f.name as relation, '' as attribute, true as is_function
      from function f
     cross join lateral aclexplode(coalesce(f.proacl, acldefault('f', f.owner))) a
     union all
    select c.owner, a.grantee, a.privilege_type, c.name, '', false
      from relation c
     cross join lateral aclexplode(c.relacl) a
     union all
    select c.owner, a.grantee, a.privilege_type, c.name, t.attname::text, false
      from relation c
      join attribute t on t.attrelid = c.oid
     cross join lateral aclexplode(t.attacl) a
     union all
    select h.nspowner, a.grantee, a.privilege_type, '', '', false
      from home h
     cross join lateral aclexplode(h.nspacl) a
)
select 'functions' as subject, w.key as name, case when f.name is null then 'missing' else 'changed' end as state,
       '' as what
  from json_each_text(%(texts)s::json) w
  left join function f on f.name = w.key
 where f.text is distinct from w.value
 union all
select 'functions', f.name, 'foreign', ''
  from function f
 where f.prokind <> 'a'
   and not %(texts)s::jsonb ? f.name
 union all
select 'functions', f.name, 'of ' || f.owner::regrole::text, ''
  from function f
 cross join home h
 where f.owner <> h.nspowner
 union all
select 'rights', a.name, 'lacks', 'usage of the schema'
  from asked a
 cross join home h
 where not has_schema_privilege(a.login, h.oid, 'usage')
 union all
select 'rights', e.name, 'lacks', 'execute on ' || e.function
  from executing e
  join function f on f.name = e.function
 where not has_function_privilege(e.login, f.oid, 'execute')
 union all
select 'rights', r.name, 'lacks', 'select on ' || trim(trailing '.' from r.relation || '.' || r.attribute)
  from reading r
  join relation c on c.name = r.relation
 where not case when r.attribute = '' then has_table_privilege(r.login, c.oid, 'select')
                else has_column_privilege(r.login, c.oid, r.attribute, 'select') end
 union all
select 'rights', coalesce(l.rolname::text, ''), 'has',
       lower(g.privilege) || ' on ' || trim(trailing '.' from coalesce(nullif(g.relation, ''), 'the schema') || '.' || g.attribute)
  from given g
  left join pg_roles l on l.oid = g.grantee
 where g.grantee <> g.owner
   and not case
           when g.relation = '' then g.privilege = 'USAGE' and exists (select from asked a where a.login = g.grantee)
           when g.is_function then exists (
               select from executing e where e.login = g.grantee and e.function = g.relation)
           else g.privilege = 'SELECT' and exists (
               select from reading r
                where r.login = g.grantee and r.relation = g.relation and r.attribute in ('', g.attribute)) end
 order by 1, 2, 3, 4
 limit 1000
