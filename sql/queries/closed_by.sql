-- The campaigns that are not open, among one and those above it, from the top.
-- Index: campaign_path_key, campaign_pkey.
-- @roles all
-- @standby yes
-- @gateway manager
select a.path
  from taskq.campaign c
 cross join lateral (
     select a.path
       from taskq.campaign a
      where a.campaign_id = any (c.lineage)
        and a.status <> 'open'
     offset 0
 ) a
 where c.path = %(path)s
 order by a.path
