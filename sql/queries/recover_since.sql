-- lost_since: an instant, or lost_within: an interval until now.
-- @roles operator
-- @gateway no
-- @act recover retry
select sessions, sessions_left, tasks_left, braked, campaigns
  from taskq.recover(
      %(path)s, %(site)s, %(silent_s)s,
      coalesce(%(lost_since)s, clock_timestamp() - %(lost_within)s::interval), %(dry_run)s)
