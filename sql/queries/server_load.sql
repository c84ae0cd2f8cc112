-- How large and how busy the database is: reads catalogs, no table of the queue. A login without the rights of
-- pg_read_all_stats sees only what it does itself.
--
-- size: in bytes. connections: of clients, to all databases of the server. oldest_s: since when the oldest
-- transaction holds a snapshot, or may; null: none does. standbys: how many follow. lag_s: how far the last
-- of them is behind; null: there is no standby, or the login may not see it.
-- @roles all
-- @standby yes
-- @gateway manager, quiet, whole
select pg_is_in_recovery() as standby,
       current_setting('server_version') as version,
       pg_database_size(current_database()) as size,
       a.connections, current_setting('max_connections')::integer as most_connections, a.oldest_s,
       r.standbys, r.lag_s
  from (
      select count(*) filter (where s.backend_type = 'client backend' or s.backend_type is null) as connections,
             extract(epoch from clock_timestamp() - min(s.xact_start)
                 filter (where s.backend_xmin is not null and s.pid <> pg_backend_pid()))::double precision
                 as oldest_s
        from pg_stat_activity s
  ) a,
  (
      select count(*) as standbys, extract(epoch from max(l.replay_lag))::double precision as lag_s
        from pg_stat_replication l
  ) r
