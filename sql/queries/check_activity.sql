-- Sessions of the whole server: how many there are, and may be in this database (remedy: how to allow more); how many of them the caller may not look at; and the
-- session of this database that has held a snapshot for longest. Reads catalogs.
-- @roles all
-- @standby no
-- @gateway no
with session as materialized (
    select a.pid, a.usename, a.datname, a.xact_start, a.backend_xmin, a.backend_type,
           a.usesysid is not null and a.backend_start is null as is_hidden
      from pg_stat_activity a
)
select c.connections, m.most, m.remedy, c.hidden, o.pid, o.login, o.held_s
  from (
      select count(*) filter (where s.is_hidden or s.backend_type = 'client backend') as connections,
             count(*) filter (where s.is_hidden) as hidden
        from session s) c
 cross join lateral (
      select a.most, a.remedy
        from (
            select current_setting('max_connections')::integer as most,
                   '`alter system set max_connections = 300`, and restart the server' as remedy
             union all
            select d.datconnlimit, format('`alter database %%I connection limit -1`', d.datname)
              from pg_database d
             where d.datname = current_database() and d.datconnlimit >= 0) a
       order by a.most
       limit 1) m
  left join lateral (
      select s.pid, s.usename::text as login,
             extract(epoch from clock_timestamp() - s.xact_start)::double precision as held_s
        from session s
       where s.backend_xmin is not null
         and s.datname = current_database()
         and s.pid <> pg_backend_pid()
       order by s.xact_start
       limit 1) o on true
