-- The status of one event; no row: it is forgotten. Index: notify_event_pkey.
-- @roles reader
-- @standby no
-- @gateway no
select e.status from taskq.notify_event e where e.event_id = %(event)s::uuid
