-- The server's log (WAL): the slot that keeps most of it, and the archiver: failures since it last archived anything.
-- @roles all
-- @standby no
-- @gateway no
select s.slot_name::text as slot, pg_wal_lsn_diff(pg_current_wal_lsn(), s.restart_lsn)::bigint as kept,
       (select pg_size_bytes(l.setting || l.unit) from pg_settings l where l.name = 'max_wal_size') as most,
       current_setting('archive_mode') <> 'off' as archives,
       case when a.last_failed_time > coalesce(a.last_archived_time, '-infinity') then a.last_failed_time end as failed_at
  from pg_stat_archiver a
  left join (
      select s.slot_name, s.restart_lsn
        from pg_replication_slots s
       where s.restart_lsn is not null
       order by s.restart_lsn
       limit 1) s on true
