-- The troubles that keepers have found at a campaign for the caller: those that hold, and those that have held since
-- some time; those that cost most first. whole: as in trouble_watch.sql.
-- Index: known_trouble_open; there are few.
-- @roles reader
-- @standby yes
-- @gateway manager
select t.trouble_id, t.code, t.subject, t.path, t.site, t.host, t.since, t.noted_at, t.seen_at, t.gone_at, t.cost,
       t.tasks, t.lost, t.blocks, t.figures, t.acknowledged_at, t.snoozed_until, t.by, t.note, t.returned_at,
       t.maintenance_id, m.ends as maintained_until
  from taskq.known_trouble t
  left join taskq.maintenance m on m.maintenance_id = t.maintenance_id
 where t.watched = %(path)s
   and t.whole = (%(whole)s::boolean and taskq.token_covers('/'))
   and taskq.token_covers(t.watched)
   and t.listed
   and (t.gone_at is null or t.gone_at >= %(since)s::timestamptz)
 order by t.gone_at is not null, t.cost desc nulls last, t.blocks desc, t.lost desc, t.tasks desc, t.trouble_id
 limit %(limit)s
