-- What is installed. migrations: null in a database of an unreleased version that did not record them.
-- @roles all
-- @standby no
-- @gateway no
select to_jsonb(i) -> 'migrations' as migrations, i.functions
  from taskq.installation i
