-- Pages of this database that were found in memory and read from elsewhere, since the counters began; and pages whose
-- checksum was wrong (null: the server has no checksums).
-- @roles all
-- @standby no
-- @gateway no
select d.blks_hit as hit, d.blks_read as read, d.checksum_failures as damaged,
       pg_size_bytes((select s.setting || s.unit from pg_settings s where s.name = 'shared_buffers')) as buffers
  from pg_stat_database d
 where d.datname = current_database()
