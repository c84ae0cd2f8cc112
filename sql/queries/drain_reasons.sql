select session_id, why from taskq.drain_reasons(%(sessions)s::bigint[])
