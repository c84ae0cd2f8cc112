"""Capacity planning: the load of a number of agents, and a short measurement of a server.

`capacity` computes the load; `trial` measures a server's rate in a scratch database, with
`clients`, which report and claim as agents do, in processes of a `process_group`.
"""
