select session_id, ended, drain, stop, suspect, follow from taskq.beat(%(beats)s::jsonb)
