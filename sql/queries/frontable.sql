select f.campaign_id from taskq.frontable(%(campaigns)s::bigint[]) as f (campaign_id)
