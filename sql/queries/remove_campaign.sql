select taskq.remove_campaign(%(path)s)
