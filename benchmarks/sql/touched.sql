-- What has happened to the tables of tasks so far: rows written, live rows reached by an index,
-- whole tables read, pages touched of tables and of indexes.
select t.relname as name, t.n_tup_ins as inserted, t.n_tup_upd as updated, t.n_tup_del as deleted,
       coalesce(t.idx_tup_fetch, 0) as reached, t.seq_scan as scans,
       i.heap_blks_hit + i.heap_blks_read
       + coalesce(i.idx_blks_hit + i.idx_blks_read, 0) as pages
  from pg_stat_user_tables t
  join pg_statio_user_tables i on i.relid = t.relid
 where t.schemaname = 'taskq'
   and t.relname in ('task', 'span', 'bundle', 'spec', 'attempt', 'delta')
