-- The owners of campaigns at and below some paths, those with most tasks there first, and how many there are; see
-- owners().
-- A path without a campaign has none. Index: those of owners(), campaign_path_key.
-- @roles gateway reader
-- @standby no
-- @gateway no
with p as materialized (
    select c.path
      from taskq.campaign c
     where c.path = any (%(paths)s::text[])
), own as (
    select distinct on (o.owner) o.owner, o.waiting, o.working, o.bytes, o.max_running, o.max_waiting, o.max_bytes
      from p
     cross join lateral taskq.owners(p.path, %(paths)s::text[]) o
     order by o.owner
)
select o.owner, o.waiting, o.working, o.bytes, o.max_running, o.max_waiting, o.max_bytes,
       count(*) over () as owners
  from own o
 order by o.waiting + o.working desc, o.owner
 limit %(limit)s
