"""Notifications: what happens to campaigns, told by mail, webhook or program.

Rules are stored in PostgreSQL (`store.py`), which also finds out what they tell of
(`sql/functions/note_events.sql`). Keepers send: `sender.py` takes what waits, `texts.py` says it,
and a process of its own for each message delivers it (`delivery.py`, `deliver.py`), so that no
receiver keeps others waiting. What a keeper may send, to whom and with which secrets, its operator
says in options, files and environment (`channels.py`); rules only name it.
"""
