-- The campaigns at and below a path that hold calls of a function, with its name. Index: campaign_path_key.
-- @roles all
-- @standby yes
-- @gateway manager
select c.path, c.handler ->> 'name' as function, c.description
  from taskq.campaign c
 where taskq.at_or_below(c.path, %(path)s)
   and c.handler ->> 'kind' = 'function'
 order by c.path
