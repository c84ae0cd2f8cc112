"""Benchmarks that people run: what the queue does, beside what the server could do at most.

Every figure is a ratio of two rates measured in one run on one machine, in turn (A B A B ...),
medians, with the disk's fsync time printed beside it, since that moves all that commits.

machine  what the figures depend on: cores, versions, fsync time, settings that must hold
raw      the limit: pgbench on a bare table, prepared statements
ours     clients of the queue in processes of their own, through the agent's transport
turns    takes two measurements in turn
cases    the cases
report   the table, and JSON
"""
