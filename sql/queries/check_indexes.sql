-- Indexes of taskq that are missing, of those that are named, or invalid: the server does not use these, or does not
-- finish them. Reads catalogs, by the names.
-- @roles all
-- @standby no
-- @gateway no
select w.name, 'missing' as state
  from unnest(%(names)s::text[]) as w (name)
 where not exists (
           select
             from pg_class c
            where c.relname = w.name
              and c.relnamespace = (select n.oid from pg_namespace n where n.nspname = 'taskq'))
 union all
select c.relname::text, 'invalid'
  from pg_index i
  join pg_class c on c.oid = i.indexrelid
 where not (i.indisvalid and i.indisready)
   and c.relnamespace = (select n.oid from pg_namespace n where n.nspname = 'taskq')
 order by 1
