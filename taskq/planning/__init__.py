"""Whether a server carries a number of agents: arithmetic, and a short measurement by clients.

`capacity` answers what so many agents ask of a server; `trial` measures what a server does, in a
scratch database, with `clients`: processes that report and claim as agents do.
"""
