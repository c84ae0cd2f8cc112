-- The gateways heard of within the hour, by name: at most 1,000 are known. silent_s: seconds since their last report.
-- @roles reader
-- @standby yes
-- @gateway manager, quiet, whole
select g.name, g.release, g.sessions, g.per_s, g.front, g.certificate_ends,
       extract(epoch from clock_timestamp() - g.seen_at)::double precision as silent_s
  from taskq.gateway g
 where g.seen_at > clock_timestamp() - interval '1 hour'
 order by g.name, g.holder
