"""Pages for people: `taskq web`, a server of its own next to the queue, read-only.

It reads what the commands read, by the same functions, and writes nothing. `pages` reads,
`templates/` lays out, `charts` draws; pages work without scripts and load nothing from elsewhere.
What is live comes from one ticker for all viewers (`diagnosis.ticker`); what takes more than a few
milliseconds is kept for some seconds (`diagnosis.shared_readings`), so many viewers cost what one
does. `access` says who may look.
"""
