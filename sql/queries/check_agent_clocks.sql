-- Hosts whose agents warn that their clock is off, of the 2,000 sessions that were opened last. Index: session_open.
-- @roles reader
-- @standby no
-- @gateway no
select s.host, count(*) as agents
  from (
      select s.host, s.said
        from taskq.session s
       where s.ended_at is null
       order by s.session_id desc
       limit 2000) s
 where s.said #> '{trouble, warnings}' @> '["clock"]'
 group by s.host
 order by 2 desc, 1
