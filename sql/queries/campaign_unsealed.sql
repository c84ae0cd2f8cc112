-- A campaign by its path, without the key that seals arguments: who has it says what agents unpickle.
-- Index: campaign_path_key.
-- @roles all
-- @standby no
-- @gateway no
select c.campaign_id, c.path, c.status, c.revision, taskq.campaign_settings(c.path) #- '{handler,seal}' as settings,
       c.paused_why, c.inputs, c.created_at, c.owner,
       case when c.memory_learns then c.memory end as learnt_memory
  from taskq.campaign c
 where c.path = %(path)s
