select taskq.begin_pilot_job(%(pilot)s, %(holder)s::uuid, %(place)s::text, %(most)s) as number
