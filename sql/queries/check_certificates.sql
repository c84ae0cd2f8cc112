-- Gateways that were heard of within the hour and whose certificate has ended, or ends within 14 days.
-- @roles reader
-- @standby no
-- @gateway no
select g.name, g.certificate_ends as ends, g.certificate_ends <= clock_timestamp() as has_ended
  from taskq.gateway g
 where g.seen_at > clock_timestamp() - interval '1 hour'
   and g.certificate_ends < clock_timestamp() + interval '14 days'
 order by g.certificate_ends, g.name
 limit 20
