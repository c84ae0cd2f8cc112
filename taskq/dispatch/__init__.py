"""Claims, reports and heartbeats on their way to the database, singly or batched in a statement.

`exchange` decides which statements a set of exchanges needs, without I/O. `batching` and
`heartbeats` let requests that arrive together share a statement. `fair_queue` limits what one
client can cost the others of a batch. `fair_share` orders the campaigns that an agent may claim
in. `long_poll` with `wait_queues` keeps agents waiting that find nothing to claim.
"""
