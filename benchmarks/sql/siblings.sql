-- Directories number first to last below a campaign, each with one campaign of 100 tasks below it.
--
-- Made as a set, since 200,000 campaigns one by one take minutes. The tasks are counted the way the
-- product counts them, by deltas, but are not there: `ls` reads no task.
with top as (
    select c.campaign_id, c.path, c.lineage from taskq.campaign c where c.path = %(path)s
), drawn as materialized (
    select nextval(pg_get_serial_sequence('taskq.campaign', 'campaign_id')) as directory,
           nextval(pg_get_serial_sequence('taskq.campaign', 'campaign_id')) as leaf,
           t.campaign_id as parent, t.lineage, t.path || '/d' || lpad(n::text, 6, '0') as path
      from top t
      cross join generate_series(%(first)s::integer, %(last)s::integer) n
), made as (
    insert into taskq.campaign (campaign_id, parent_id, path, lineage)
    overriding system value
    select d.directory, d.parent, d.path, d.lineage || d.directory
      from drawn d
    union all
    select d.leaf, d.directory, d.path || '/tasks', d.lineage || d.directory || d.leaf
      from drawn d
), counted as (
    insert into taskq.counter (campaign_id)
    select unnest(array[d.directory, d.leaf]) from drawn d
), summed as (
    insert into taskq.subtotal (campaign_id)
    select unnest(array[d.directory, d.leaf]) from drawn d
)
insert into taskq.delta (campaign_id, waiting, children)
select d.leaf, 100, null from drawn d
 union all
select d.directory, 0, 1 from drawn d
 union all
select d.parent, 0, count(*)::integer from drawn d group by d.parent
