-- The number of the server, which rises when another takes over; see functions/timeline.sql. And the
-- process that answers, by which a pooler in between is seen.
-- @roles all
-- @standby no
-- @gateway no
select taskq.timeline() as timeline, pg_backend_pid() as pid
