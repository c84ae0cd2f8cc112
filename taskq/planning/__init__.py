"""Capacity planning: what a number of agents asks of a server, and a short measurement of one.

`capacity` computes the load from `costs`; `trial` measures these in a scratch database, and checks
the model with them. `clients` report and claim as agents do, in processes of a `process_group`, for
benchmarks.
"""
