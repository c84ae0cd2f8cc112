select taskq.note_gateway(
    %(holder)s::uuid, %(gateway)s, %(release)s, %(sessions)s::integer, %(per_s)s::double precision, %(front)s::boolean)
