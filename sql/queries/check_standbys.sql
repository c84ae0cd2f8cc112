-- What commits wait for: the setting, and how many standbys are connected that the caller can see.
-- @roles all
-- @standby no
-- @gateway no
select current_setting('synchronous_standby_names') as names,
       (select count(*) from pg_stat_replication) as standbys,
       current_setting('synchronous_commit') in ('off', 'local') as is_left
