select from taskq.note_updates(%(updates)s::jsonb)
