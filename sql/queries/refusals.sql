-- The campaigns at and below a path that agents cannot run, with the last refusal of each, and how many
-- hosts have refused it within the day. Index: refusal_pkey, session_pkey.
-- @roles reader
-- @standby yes
-- @gateway manager
select c.path, r.hosts, r.some_hosts, r.last_at, r.error_class, r.error
  from taskq.refused f
  join taskq.campaign c on c.campaign_id = f.campaign_id
 cross join lateral (
     select count(distinct s.host) as hosts, (array_agg(distinct s.host))[1:5] as some_hosts,
            max(r.last_at) as last_at,
            (array_agg(r.error_class order by r.last_at desc))[1] as error_class,
            (array_agg(r.error order by r.last_at desc))[1] as error
       from taskq.refusal r
       join taskq.session s on s.session_id = r.session_id
      where r.campaign_id = f.campaign_id
     having count(*) > 0
 ) r
 where taskq.at_or_below(c.path, %(path)s)
 order by c.path
