select place, session_id, path, offers, refused, reason
  from taskq.enrol_many(%(hellos)s::jsonb, %(lease_s)s)
