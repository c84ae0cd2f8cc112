"""Claims, reports and heartbeats on their way to the database, one by one or many in a statement.

`exchange` and `beats` say what is asked of the database, without I/O. `batching` and `heartbeats`
let what arrives together share a statement; `fair_share` chooses the campaign that an agent claims
in; `long_poll` lets agents wait that find nothing.
"""
