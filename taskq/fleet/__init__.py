"""The fleet: hosts and sites with their agents; how they do, and which are banned.

`Client.fleet` is the way in. `bans` keeps agents away from hosts and sites; `places` compares hosts
and sites by a bounded sample of the latest attempts; `blame` says whose fault failures are.
"""
