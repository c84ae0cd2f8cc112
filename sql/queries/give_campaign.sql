select taskq.give_campaign(%(path)s, %(owner)s)
