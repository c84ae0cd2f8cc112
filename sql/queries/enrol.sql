select session as session_id, path
  from taskq.enrol(
      %(token_hash)s, %(session_hash)s, %(address)s::inet, %(path)s, %(key)s::uuid, %(lease_s)s,
      %(agent)s, %(host)s, %(site)s, %(pid)s, %(slots)s, %(release)s, %(offers)s::text[])
