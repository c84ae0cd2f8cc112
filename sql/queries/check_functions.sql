-- Functions of taskq that are not as their files have them. texts: the digest of each body, by name.
-- state: missing or changed. Reads catalogs.
-- @roles all
-- @standby no
-- @gateway no
with there as materialized (
    select p.proname::text as name, md5(p.prosrc) as text
      from pg_proc p
     where p.pronamespace = (select n.oid from pg_namespace n where n.nspname = 'taskq')
)
select w.key as name, case when t.name is null then 'missing' else 'changed' end as state
  from json_each_text(%(texts)s::json) w
  left join there t on t.name = w.key
 where t.text is distinct from w.value
 order by 1
 limit 100
