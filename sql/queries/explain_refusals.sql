-- The campaigns at and below a path that agents at work leave out now, since they could not run them: how
-- many agents and slots, on which hosts, why, and until when at the latest; see hosts_serving().
-- It reads the refusals of the last ten minutes, since no pause is longer, and no other campaign.
-- Index: refusal_last_at, session_pkey, campaign_pkey.
-- @roles reader
-- @standby yes
-- @gateway manager
select c.path, r.agents, r.slots, r.hosts, r.some_hosts, r.error_class, r.error, r.until
  from (
      select r.campaign_id, count(*) as agents, sum(s.slots)::bigint as slots, count(distinct s.host) as hosts,
             (array_agg(distinct s.host))[1:5] as some_hosts,
             (array_agg(r.error_class order by r.last_at desc))[1] as error_class,
             (array_agg(r.error order by r.last_at desc))[1] as error, max(r.until) as until
        from (
            select r.campaign_id, r.session_id, r.last_at, r.error_class, r.error,
                   r.last_at + interval '10 s' * least(60, 2.0 ^ (least(r.pauses, 9) - 1)) as until
              from taskq.refusal r
             where r.last_at > clock_timestamp() - interval '10 min'
            offset 0
        ) r
       cross join lateral (
           select s.slots, s.host
             from taskq.session s
            where s.session_id = r.session_id
              and s.ended_at is null
              and not s.drain
           offset 0
       ) s
       where r.until > clock_timestamp()
       group by r.campaign_id
  ) r
 cross join lateral (
     select c.path from taskq.campaign c where c.campaign_id = r.campaign_id offset 0
 ) c
 where taskq.at_or_below(c.path, %(path)s)
 order by r.agents desc, c.path
 limit %(limit)s
