select taskq.set_status(%(path)s, %(status)s::taskq.campaign_status)
