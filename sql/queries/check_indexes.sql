-- Indexes of taskq that are missing, of those that are named, or invalid: the server does not use these, or does not
-- finish them. Reads catalogs.
-- @roles all
-- @standby no
-- @gateway no
with there as materialized (
    select c.oid, c.relname::text as name
      from pg_class c
     where c.relnamespace = (select n.oid from pg_namespace n where n.nspname = 'taskq')
       and c.relkind = 'i'
)
select w.name, 'missing' as state
  from unnest(%(names)s::text[]) as w (name)
 where not exists (select from there t where t.name = w.name)
 union all
select t.name, 'invalid'
  from pg_index i
  join there t on t.oid = i.indexrelid
 where not (i.indisvalid and i.indisready)
 order by 1
