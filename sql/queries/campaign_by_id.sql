-- What agents cache of a campaign: the members of CampaignTerms in taskq_agent.protocol, by their names.
-- Index: campaign_pkey.
-- @roles all
-- @standby no
-- @gateway no
select campaign_id as campaign, revision, path, coalesce(handler, '{}') as handler, params, time_limit_s, inputs,
       on_disconnect, checkpoint_bytes, checkpoint_every_s, output_bytes, cores, coalesce(memory, '{}') as memory,
       memory_learns as memory_learnt, gpus, require, require_files,
       gpu_memory, taskq.needed_resources(named_resources) as named_resources, recipe
  from taskq.campaign
 where campaign_id = %(campaign)s
