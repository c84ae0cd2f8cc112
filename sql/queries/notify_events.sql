-- The latest events of a notification rule, latest first. Index: notify_event_rule.
-- @roles reader
-- @standby no
-- @gateway no
select e.event_id, e.event, e.subject, e.noted_at, e.figures, e.status, e.ended_at
  from taskq.notify_event e
 where e.rule = %(rule)s
 order by e.noted_at desc, e.event, e.subject
 limit %(limit)s
