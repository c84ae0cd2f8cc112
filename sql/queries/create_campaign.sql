select taskq.create_campaign(%(path)s, %(spec)s::jsonb)
