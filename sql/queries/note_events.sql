select taskq.note_events(%(disks)s::jsonb)
