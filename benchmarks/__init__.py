"""Benchmarks: the rates of the queue, compared with the limit of the server.

Most figures are ratios of two rates that are measured alternately in one run on one machine
(A B A B ...); they are medians. The disk's fsync time is printed with them, since all commits
depend on it. `make bench` runs them; docs/benchmarks.md describes the cases.

machine   environment of the figures: cores, versions, fsync time, required settings
scale     sizes and durations
stage     scratch databases with a campaign, seeded and with upkeep
raw       the limit: pgbench on a bare table, prepared statements
load      agents in thousands, in processes of their own
gateways  gateways in processes of their own
wan       a network with latency
pooler    a PgBouncer in front of the server
loop      waits for many sockets
meter     a held snapshot, the CPU time of a server process
processes CPU time and memory of processes
latencies latencies as counts in buckets
turns     two measurements, alternately
findings  results of a case, and whether the goal is reached
cases     the cases
report    the table, and JSON
plot      a chart
"""
