"""Benchmarks that people run: what the queue does, beside what the server could do at most.

Most figures are ratios of two rates measured in one run on one machine, in turn (A B A B ...),
medians, with the disk's fsync time printed beside them, since that moves all that commits.
`make bench` is the way in; docs/benchmarks.md describes the cases.

machine   what the figures depend on: cores, versions, fsync time, settings that must hold
scale     how large and how long
stage     scratch databases with a campaign, seeded and upheld
raw       the limit: pgbench on a bare table, prepared statements
load      agents in thousands, in processes of their own
gateways  gateways in processes of their own
wan       a network that takes its time
pooler    a PgBouncer in front of the server
loop      waits for many sockets
meter     a held snapshot, the time that a server process works
processes CPU time and memory of processes
latencies latencies as counts
turns     takes two measurements in turn
findings  what a case finds, and whether the goal is reached
cases     the cases
report    the table, and JSON
plot      a picture
"""
