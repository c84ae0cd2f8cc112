select taskq.note_events()
