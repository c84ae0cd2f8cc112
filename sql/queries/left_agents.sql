-- The sessions that have ended within the hour, those that ended last first. Index: session_ended.
-- @roles reader
-- @standby yes
-- @gateway manager, up to 10000000
select s.session_id, s.agent, s.host, s.site, s.pid, s.slots, s.release, c.path, s.opened_at,
       s.ended_at,
       case when s.expired then 'it was silent for longer than its lease'
            else s.left_why end as reason,
       s.exit_code, s.expired
  from taskq.session s
  join taskq.campaign c on c.campaign_id = s.campaign_id
 where s.ended_at > clock_timestamp() - interval '1 hour'
   and (taskq.at_or_below(c.path, %(path)s) or taskq.at_or_below(%(path)s, c.path))
 order by s.ended_at desc
 limit %(limit)s
