-- What holds back the horizon of VACUUM or the log for as long as nobody ends it: prepared transactions of this database,
-- replication slots, and standbys that report what they read (which the caller may see). age: in transactions; null: none. used: whether somebody uses the slot. log: the state of its
-- log, see pg_replication_slots. Reads catalogs.
-- @roles all
-- @standby no
-- @gateway no
select 'prepared transaction' as kind, p.gid as name, age(p.transaction)::bigint as age,
       extract(epoch from clock_timestamp() - p.prepared)::double precision as held_s, null::boolean as used,
       null::text as log
  from pg_prepared_xacts p
 where p.database = current_database()
 union all
select 'replication slot', s.slot_name::text, greatest(age(s.xmin), age(s.catalog_xmin))::bigint, null, s.active,
       s.wal_status
  from pg_replication_slots s
 union all
select 'standby', coalesce(nullif(r.application_name, ''), r.pid::text), age(r.backend_xmin)::bigint, null, true, null
  from pg_stat_replication r
 where r.backend_xmin is not null
 order by 1, 2
