-- Tables of taskq that are not as a queue needs them. names: of all tables that belong there; unlogged: of those that a
-- crash may empty. what: what is wrong, with the name of the thing if it has one. Reads catalogs.
-- @roles all
-- @standby no
-- @gateway no
with home as materialized (
    select n.oid, n.nspowner from pg_namespace n where n.nspname = 'taskq'
), there as materialized (
    select c.oid, c.relname::text as name, c.relowner, c.relpersistence, c.relrowsecurity or c.relforcerowsecurity as is_hidden,
           array_to_string(c.reloptions, ' ') ~* 'autovacuum_enabled=(false|off|0|no)' as is_left
      from pg_class c
     where c.relnamespace = (select h.oid from home h)
       and c.relkind = 'r'
)
select w.name, 'missing' as what, '' as thing
  from unnest(%(names)s::text[]) w (name)
 where not exists (select from there t where t.name = w.name)
 union all
select t.name, 'unlogged', '' from there t where t.relpersistence = 'u' and t.name <> all (%(unlogged)s::text[])
 union all
select t.name, 'hidden', '' from there t where t.is_hidden
 union all
select t.name, 'not vacuumed', '' from there t where t.is_left
 union all
select t.name, 'owner', t.relowner::regrole::text from there t cross join home h where t.relowner <> h.nspowner
 union all
select t.name, case when g.tgisinternal then 'trigger off' else 'trigger' end, g.tgname::text
  from there t
  join pg_trigger g on g.tgrelid = t.oid and (g.tgenabled = 'D' or not g.tgisinternal)
 union all
select t.name, 'rule', r.rulename::text from there t join pg_rewrite r on r.ev_class = t.oid
 order by 1, 2, 3
 limit 100
