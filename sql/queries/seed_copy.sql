-- @roles owner
copy taskq.spec (campaign_id, key, payload, priority) from stdin
