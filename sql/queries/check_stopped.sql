-- Programs that serve the queue and ended by an error within a day, the latest first; see note_stopped(). They are few.
-- @roles reader
-- @standby yes
-- @gateway manager, quiet, whole
select s.program, s.host, s.login, s.why, s.first_at, s.last_at, s.times
  from taskq.stopped s
 where s.last_at > clock_timestamp() - interval '1 day'
 order by s.last_at desc, s.login, s.program, s.host
 limit 20
