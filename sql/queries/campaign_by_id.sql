-- The description of a campaign that agents cache. Index: campaign_pkey.
-- @roles all
-- @standby no
-- @gateway no
select campaign_id, revision, path, handler, params, time_limit_s, inputs, on_disconnect,
       checkpoint_bytes, checkpoint_every_s, output_bytes, cores, memory, memory_learns, gpus, require,
       require_files
  from taskq.campaign
 where campaign_id = %(campaign)s
