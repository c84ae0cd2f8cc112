select session_id, ended, drain, stop from taskq.beat(%(beats)s::jsonb)
