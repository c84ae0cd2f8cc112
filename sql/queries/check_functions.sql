-- Functions of taskq that are not as their files have them. texts: by name, the digest of each body with what it runs as
-- and under which settings. state: missing, changed, foreign (not one of taskq's), or whose it is, if not the schema's
-- owner's. Reads catalogs.
-- @roles all
-- @standby no
-- @gateway no
with home as materialized (
    select n.oid, n.nspowner from pg_namespace n where n.nspname = 'taskq'
), there as materialized (
    select p.proname::text as name, p.proowner as owner, p.prokind,
           md5(concat_ws('|', p.prosrc, p.prosecdef::text,
                         (select string_agg(c.c, '|' order by c.c collate "C") from unnest(p.proconfig) c (c)))) as text
      from pg_proc p
     where p.pronamespace = (select h.oid from home h)
)
select w.key as name, case when t.name is null then 'missing' else 'changed' end as state
  from json_each_text(%(texts)s::json) w
  left join there t on t.name = w.key
 where t.text is distinct from w.value
 union all
select t.name, 'foreign'
  from there t
 where t.prokind <> 'a'
   and not %(texts)s::jsonb ? t.name
 union all
select t.name, 'of ' || t.owner::regrole::text
  from there t
 cross join home h
 where t.owner <> h.nspowner
 order by 1, 2
 limit 100
