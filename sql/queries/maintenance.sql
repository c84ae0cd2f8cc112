-- The maintenance windows of a campaign, of those above it and below it: those that last, those that are to come, and those
-- that have ended within so many seconds; latest first. now: the time of the server.
-- Index: maintenance_pkey; there are few.
-- @roles reader
-- @standby yes
-- @gateway manager
select m.maintenance_id, m.path, m.sites, m.hosts, m.begins, m.ends, m.why, m.by, m.ended_by, clock_timestamp() as now
  from taskq.maintenance m
 where m.ends > clock_timestamp() - make_interval(secs => %(lately_s)s)
   and (taskq.at_or_below(m.path, %(path)s) or taskq.at_or_below(%(path)s, m.path))
 order by m.begins desc, m.maintenance_id desc
