select taskq.open_session(
    %(path)s, %(key)s::uuid, %(lease_s)s, %(agent)s, %(host)s, %(site)s, %(pid)s, %(slots)s,
    %(release)s, %(offers)s::text[])
