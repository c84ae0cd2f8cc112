-- A campaign by its path. Index: campaign_path_key.
-- @roles all
-- @standby yes
-- @gateway manager, instead campaign_unsealed
select c.campaign_id, c.path, c.status, c.revision, taskq.campaign_settings(c.path) as settings,
       c.paused_why, c.inputs, c.created_at, c.owner,
       case when c.memory_learns then c.memory end as learnt_memory
  from taskq.campaign c
 where c.path = %(path)s
