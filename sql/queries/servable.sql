select campaign_id, revision, waiting from taskq.servable(%(path)s, %(lifetime_s)s::double precision)
