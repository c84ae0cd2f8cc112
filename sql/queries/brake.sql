-- The brake on expiry, if it is on. Index: none, it is one row.
select since, heard_at, until, silent, open
  from taskq.brake
 where since is not null
