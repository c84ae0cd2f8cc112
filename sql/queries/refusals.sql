-- The campaigns at and below a path that agents cannot run, with the last refusal of each, and how many
-- hosts have refused it within the day. It reads all refusals, which are kept for a day, and no other campaign.
-- Index: session_pkey, campaign_pkey.
-- @roles reader
-- @standby yes
-- @gateway manager
select c.path, r.hosts, r.some_hosts, r.last_at, r.error_class, r.error
  from (
      select r.campaign_id, count(distinct s.host) as hosts, (array_agg(distinct s.host))[1:5] as some_hosts,
             max(r.last_at) as last_at,
             (array_agg(r.error_class order by r.last_at desc))[1] as error_class,
             (array_agg(r.error order by r.last_at desc))[1] as error
        from taskq.refusal r
       cross join lateral (
           select s.host from taskq.session s where s.session_id = r.session_id offset 0
       ) s
       group by r.campaign_id
  ) r
 cross join lateral (
     select c.path from taskq.campaign c where c.campaign_id = r.campaign_id offset 0
 ) c
 where taskq.at_or_below(c.path, %(path)s)
 order by c.path
