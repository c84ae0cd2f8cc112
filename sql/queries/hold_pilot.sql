select taskq.hold_pilot(%(pilot)s, %(holder)s::uuid, %(term_s)s, %(host)s) as held
