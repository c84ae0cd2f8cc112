"""Upkeep: the keeper's loop, and the notifications that keepers send.

PostgreSQL stores the rules (`notifications`) and finds the events. `sender` takes waiting messages,
`texts` words them, and a separate process delivers each (`delivery`, `deliver`), so that no
receiver holds up others. Options, files and environment of a keeper decide what it may send, to
whom and with which secrets (`channels`); rules only name these.
"""
