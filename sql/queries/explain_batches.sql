-- The agents that give fewer tasks of a campaign, at or below a path, to one start than its handler allows: by
-- campaign and the class as which starts have failed there though none of their tasks failed alone.
-- Index: session_open, campaign_pkey.
-- @roles reader
-- @standby yes
-- @gateway manager
select c.path, (c.handler ->> 'batch')::integer as batch, coalesce(b.error_class, '') as error_class,
       count(*) as agents, min(b.size) as least,
       (array_agg(distinct s.host))[1:5] as some_hosts, count(distinct s.host) as hosts
  from taskq.session s
 cross join lateral jsonb_to_recordset(s.said -> 'batches') as b (campaign bigint, size integer, error_class text)
 cross join lateral (
     select c.path, c.handler from taskq.campaign c where c.campaign_id = b.campaign offset 0
 ) c
 where s.ended_at is null
   and s.said ? 'batches'
   and taskq.at_or_below(c.path, %(path)s)
   and c.handler -> 'batch' <> 'null'
   and b.size < (c.handler ->> 'batch')::integer
 group by c.path, c.handler, b.error_class
 order by count(*) desc, c.path, error_class
 limit %(limit)s
