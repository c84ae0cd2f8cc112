select session_id, ended, drain, stop, suspect from taskq.beat(%(beats)s::jsonb)
