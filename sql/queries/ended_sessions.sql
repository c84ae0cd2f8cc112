-- Of some sessions, those that have ended. Index: session_pkey.
-- @roles gateway reader
-- @standby no
-- @gateway no
select s.session_id
  from taskq.session s
 where s.session_id = any (%(sessions)s::bigint[])
   and s.ended_at is not null
