-- The campaigns that are not open, above, at and below one, from the top.
-- Index: campaign_path_key, campaign_pkey, campaign_closed.
-- @roles all
-- @standby yes
-- @gateway manager
select c.path, c.status::text, c.paused_why
  from taskq.campaign c
 where c.status <> 'open'
   and (taskq.at_or_below(c.path, %(path)s) or taskq.at_or_below(%(path)s, c.path))
 order by c.path
 limit %(limit)s
