-- Tables of taskq with their bytes, without and with indexes, and their rows, living and dead, as the server counts
-- them; the largest first. Looks at the files of the ten tables that seem largest; of others the bytes are those that
-- VACUUM saw last, since to look at a file costs dozens of pages. Reads no table, and waits for nobody longer than
-- lock_timeout.
-- @roles all
-- @standby no
-- @gateway no
with relation as materialized (
    select c.oid, c.relname::text as name, c.relkind, c.relpages,
           pg_stat_get_live_tuples(c.oid) as live, pg_stat_get_dead_tuples(c.oid) as dead
      from pg_class c
     where c.relnamespace = (select n.oid from pg_namespace n where n.nspname = 'taskq')
       and c.relkind in ('r', 'i')
), indexed as materialized (
    select i.indrelid, sum(r.relpages)::bigint as pages
      from pg_index i
      join relation r on r.oid = i.indexrelid
     group by i.indrelid
), seen as materialized (
    select r.*, coalesce(x.pages, 0) as index_pages,
           row_number() over (
               order by greatest(r.relpages + coalesce(x.pages, 0), (r.live + r.dead) / 100) desc, r.name) as place
      from relation r
      left join indexed x on x.indrelid = r.oid
     where r.relkind = 'r'
)
select z.*
  from (
      select s.name,
             case when s.place <= 10 then pg_table_size(s.oid) else s.relpages * b.bytes end as bytes,
             case when s.place <= 10 then pg_indexes_size(s.oid) else s.index_pages * b.bytes end as index_bytes,
             s.live, s.dead,
             greatest(pg_stat_get_last_vacuum_time(s.oid), pg_stat_get_last_autovacuum_time(s.oid)) as vacuumed_at
        from seen s
       cross join (select current_setting('block_size')::bigint as bytes) b
  ) z
 order by z.bytes + z.index_bytes desc, z.name
