-- Bytes of each table (with what is stored apart from its rows), of its indexes, of the catalogs, and of the log's files
-- with the limit that checkpoints keep them to.
select 'table' as kind, c.relname as name, pg_table_size(c.oid) as bytes
  from pg_class c
 where c.relkind = 'r'
   and c.relnamespace = 'taskq'::regnamespace
 union all
select 'index', i.relname, pg_relation_size(i.oid)
  from pg_class i
 where i.relkind = 'i'
   and i.relnamespace = 'taskq'::regnamespace
 union all
select 'catalog', c.relname, pg_total_relation_size(c.oid)
  from pg_class c
 where c.relkind = 'r'
   and c.relnamespace = 'pg_catalog'::regnamespace
 union all
select 'log', 'pg_wal', sum(w.size)::bigint
  from pg_ls_waldir() w
 union all
select 'limit', 'max_wal_size', pg_size_bytes(current_setting('max_wal_size'))
