-- The sessions of PostgreSQL that keep this database from its work, for 5 seconds or more: others wait for a lock of
-- theirs, or they keep a table of the queue from all readers. Also those that keep rows of it locked in a transaction
-- in which they have done nothing for 10 seconds: claims pass locked rows by, so nobody waits for them. The one that
-- keeps most first. And first of all what no session keeps: commits that wait for 5 seconds or more for a standby, or
-- for the disk of the log. None on a standby.
--
-- login, since, statement: of the session: since when its transaction is open, and its last statement; null: the
-- caller's login may not see them. waiting: how many wait for it. longest_s: for how long the first of them. tables:
-- those that nobody else can read, or of which it keeps rows (passed_by). Who waits for a lock of its own is not to blame.
-- event: for what commits wait, as pg_stat_activity names it, since the first of them, with pid 0; null: for a session.
-- standbys: the setting by which they may. One session alone that writes the log may just run a long statement.
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
), kept as materialized (
    select l.pid, array_agg(distinct c.relname::text order by c.relname::text) as tables
      from pg_locks l
      join pg_class c on c.oid = l.relation
      join pg_namespace n on n.oid = c.relnamespace
      join pg_stat_activity a on a.pid = l.pid
     where l.granted
       and l.mode = 'AccessExclusiveLock'
       and n.nspname = 'taskq'
       and c.relkind = 'r'
       and a.datname = current_database()
       and a.xact_start < clock_timestamp() - interval '5 s'
     group by l.pid
), passed_by as (
    select l.pid, array_agg(distinct c.relname::text order by c.relname::text) as tables
      from pg_locks l
      join pg_class c on c.oid = l.relation
      join pg_namespace n on n.oid = c.relnamespace
      join pg_stat_activity a on a.pid = l.pid
     where l.granted
       and l.mode in ('RowShareLock', 'RowExclusiveLock')
       and n.nspname = 'taskq'
       and c.relkind = 'r'
       and a.datname = current_database()
       and a.state in ('idle in transaction', 'idle in transaction (aborted)')
       and a.state_change < clock_timestamp() - interval '10 s'
     group by l.pid
), blocking as (
    select b.pid, count(b.waiter)::integer as waiting,
           coalesce(max(extract(epoch from clock_timestamp() - b.since)), 0)::double precision as longest_s
      from (
          select b.pid, w.pid as waiter, w.since
            from late w
           cross join lateral (select distinct u.pid from unnest(pg_blocking_pids(w.pid)) as u (pid)) b
           union all
          select k.pid, null, null from kept k
           union all
          select p.pid, null, null from passed_by p
      ) b
     group by b.pid
), commits as (
    select min(a.wait_event) as event, count(*)::integer as waiting, min(a.query_start) as since,
           extract(epoch from clock_timestamp() - min(a.query_start))::double precision as longest_s
      from pg_stat_activity a
     where a.datname = current_database()
       and a.state = 'active'
       and a.query_start < clock_timestamp() - interval '5 s'
       and (a.wait_event = 'SyncRep' or a.wait_event_type in ('IO', 'LWLock') and lower(left(a.wait_event, 3)) = 'wal')
     group by a.wait_event = 'SyncRep'
    having a.wait_event = 'SyncRep' or count(*) > 1
)
select 0 as pid, null::text as login, c.since, null::text as statement, c.waiting, c.longest_s,
       '{}'::text[] as tables, false as passed_by, c.event, current_setting('synchronous_standby_names') as standbys
  from commits c
 union all
(select b.pid, s.usename::text as login, s.xact_start as since, left(s.query, 200) as statement, b.waiting, b.longest_s,
       coalesce((select k.tables from kept k where k.pid = b.pid), p.tables, '{}') as tables,
       b.waiting = 0 and not exists (select from kept k where k.pid = b.pid) as passed_by, null, null
  from blocking b
  left join pg_stat_activity s on s.pid = b.pid
  left join passed_by p on p.pid = b.pid
 where not exists (select from pg_locks l where l.pid = b.pid and not l.granted)
 order by b.waiting desc, b.pid
 limit 3)
