-- The changes of a campaign's recipe, in their order: when, by whom, and which members differ from before, 50 at most
-- of handler, inputs and parameters each.
-- A campaign whose recipe has never changed has one.
-- Index: campaign_path_key, recipe_pkey.
-- @roles all
-- @standby yes
-- @gateway manager
with chosen as (
    select r.change, r.recipe, r.changed_at, r.changed_by, r.handler, r.params, r.inputs
      from taskq.campaign c
      join taskq.recipe r on r.campaign_id = c.campaign_id
     where c.path = %(path)s
     union all
    select 1, 1, c.created_at, coalesce(c.owner, ''), c.handler, c.params, c.inputs
      from taskq.campaign c
     where c.path = %(path)s
       and not exists (select from taskq.recipe r where r.campaign_id = c.campaign_id)
), paired as (
    select c.*, lag(c.change) over earlier as before, lag(c.handler) over earlier as old_handler,
           lag(c.params) over earlier as old_params, lag(c.inputs) over earlier as old_inputs
      from chosen c
    window earlier as (order by c.change)
)
select p.change, p.recipe, p.changed_at, p.changed_by,
       case when p.before is null then '{}'
            else taskq.differing_members('handler', p.old_handler, p.handler)
                 || taskq.differing_members('inputs', p.old_inputs, p.inputs)
                 || taskq.differing_members('params', p.old_params, p.params) end as what
  from paired p
 order by p.change
