-- The slots of the agents that serve a campaign, one above or one below it, offer at least these tags, meet these
-- requirements, and do not drain. Index: session_open.
-- @roles reader
-- @standby no
-- @gateway manager
-- @repeat safe
select coalesce(sum(s.slots), 0) as slots
  from taskq.session s
  join taskq.campaign c on c.campaign_id = s.campaign_id
 where s.ended_at is null
   and not s.drain
   and s.session_id <> 0
   and s.offers @> %(offers)s::text[]
   and (%(requires)s::text[] = '{}' or taskq.offered(%(requires)s::text[], s.offers))
   and (taskq.at_or_below(c.path, %(path)s) or taskq.at_or_below(%(path)s, c.path))
