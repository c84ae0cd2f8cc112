-- The bans that have not ended, latest first. Index: none, they are few.
-- @roles reader
-- @standby yes
-- @gateway manager, quiet, whole
select kind, name, path, why, login, banned_at, until
  from taskq.ban
 where (until > clock_timestamp()) is not false
 order by banned_at desc, kind, name, path
