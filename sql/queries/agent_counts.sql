-- How many agents are at work that serve a campaign, one above or one below it: open sessions, as `agents` lists them, on
-- how many hosts, with how many slots. silent_s: of the one that is silent for longest; late: how many have missed two
-- heartbeats, the first of which counts as lost after lost_after_s of silence; both null: none.
-- Index: session_open, campaign_pkey.
-- @roles reader
-- @standby yes
-- @gateway manager
select count(*) as agents, count(distinct s.host) as hosts, coalesce(sum(s.slots), 0)::bigint as slots,
       max(n.silent_s) as silent_s, count(*) filter (where n.silent_s > s.lease_s / 2) as late,
       min(s.lease_s) filter (where n.silent_s > s.lease_s / 2) as lost_after_s
  from taskq.session s
 cross join lateral (
     select c.path from taskq.campaign c where c.campaign_id = s.campaign_id offset 0
 ) c
 cross join lateral (
     select extract(epoch from clock_timestamp() - s.heartbeat_at)::float8 as silent_s
 ) n
 where s.ended_at is null
   and s.session_id <> 0
   and (taskq.at_or_below(c.path, %(path)s) or taskq.at_or_below(%(path)s, c.path))
