-- The sessions of PostgreSQL that others of this database have been waiting for, for 5 seconds or more: they hold a lock,
-- and wait for none themselves; the one that keeps most first. None on a standby.
--
-- login, since, statement: of the session: since when its transaction is open, and its last statement; null: the
-- caller's login may not see them. waiting: how many wait for it. longest_s: for how long the first of them.
-- Reads catalogs alone.
-- @roles all
-- @standby yes
-- @gateway manager, quiet, whole
with late as materialized (
    select l.pid, min(l.waitstart) as since
      from pg_locks l
      join pg_stat_activity a on a.pid = l.pid
     where not l.granted
       and l.waitstart < clock_timestamp() - interval '5 s'
       and a.datname = current_database()
     group by l.pid
     order by 2
     limit 100
)
select b.pid, s.usename::text as login, s.xact_start as since, left(s.query, 200) as statement,
       count(*)::integer as waiting,
       max(extract(epoch from clock_timestamp() - w.since))::double precision as longest_s
  from late w
 cross join lateral (select distinct u.pid from unnest(pg_blocking_pids(w.pid)) as u (pid)) b
  left join pg_stat_activity s on s.pid = b.pid
 where not exists (select from pg_locks l where l.pid = b.pid and not l.granted)
 group by b.pid, s.usename, s.xact_start, s.query
 order by 5 desc, b.pid
 limit 3
