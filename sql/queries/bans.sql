-- The bans that have not ended, latest first; with a token those that it is for. Index: none, they are few.
-- @roles reader
-- @standby yes
-- @gateway manager
select kind, name, path, why, login, banned_at, until
  from taskq.ban
 where (until > clock_timestamp()) is not false
   and taskq.token_covers(path)
 order by banned_at desc, kind, name, path
