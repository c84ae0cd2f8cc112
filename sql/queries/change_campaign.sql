select taskq.change_campaign(%(path)s, %(spec)s::jsonb)
