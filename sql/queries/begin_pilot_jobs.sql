select number from taskq.begin_pilot_jobs(
    %(pilot)s, %(holder)s::uuid, %(count)s, %(most)s) as b (number) order by number
