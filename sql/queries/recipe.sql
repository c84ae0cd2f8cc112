-- A recipe of a campaign, by its number; null: the one that it has now. At most one row.
-- Index: campaign_path_key, recipe_pkey.
-- @roles all
-- @standby yes
-- @gateway manager
select n.recipe, n.handler, n.params, n.inputs
  from (
      select coalesce(c.recipe, 1) as recipe, c.handler - 'seal' as handler, c.params, c.inputs, 0 as change
        from taskq.campaign c
       where c.path = %(path)s
         and coalesce(c.recipe, 1) = coalesce(%(recipe)s::integer, c.recipe, 1)
       union all
      select r.recipe, r.handler, r.params, r.inputs, r.change
        from taskq.campaign c
        join taskq.recipe r on r.campaign_id = c.campaign_id
       where c.path = %(path)s
         and r.recipe = %(recipe)s::integer
  ) n
 order by n.change
 limit 1
