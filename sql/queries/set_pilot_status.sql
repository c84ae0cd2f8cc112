select taskq.set_pilot_status(%(pilot)s, %(status)s) as live
