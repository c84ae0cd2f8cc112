"""Upkeep: the keeper's loop, and the notifications that keepers send.

Rules are stored in PostgreSQL (`notifications`), which also finds the events. `sender` takes the
messages that wait, `texts` words them, and a process of its own delivers each (`delivery`,
`deliver`), so that no receiver keeps others waiting. A keeper's operator says in options, files and
environment what may be sent, to whom and with which secrets (`channels`); rules only name it.
"""
