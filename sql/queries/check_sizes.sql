-- Tables of taskq with their bytes, without and with indexes, and their rows, living and dead, as the server counts
-- them; the largest first. Looks at files, reads no table. It waits for nobody longer than lock_timeout.
-- @roles all
-- @standby no
-- @gateway no
select c.relname::text as name, z.bytes, z.index_bytes,
       pg_stat_get_live_tuples(c.oid) as live, pg_stat_get_dead_tuples(c.oid) as dead,
       greatest(pg_stat_get_last_vacuum_time(c.oid), pg_stat_get_last_autovacuum_time(c.oid)) as vacuumed_at
  from pg_class c
 cross join lateral (
     select pg_table_size(c.oid) as bytes, pg_indexes_size(c.oid) as index_bytes offset 0
 ) z
 where c.relnamespace = (select n.oid from pg_namespace n where n.nspname = 'taskq')
   and c.relkind = 'r'
 order by z.bytes + z.index_bytes desc, 1
