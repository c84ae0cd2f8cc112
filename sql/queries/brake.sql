-- The brake on expiry, if it is on. silent, open: null to a manager's token that is not for the whole queue.
-- Index: none, it is one row.
-- @roles gateway reader
-- @standby yes
-- @gateway manager
select since, heard_at, until,
       case when taskq.token_covers('/') then silent end as silent,
       case when taskq.token_covers('/') then open end as open
  from taskq.brake
 where since is not null
