-- Campaigns number first to last below a campaign, whose 100 tasks have all succeeded.
--
-- Made as a set, as in siblings.sql: their tasks are counted by deltas, but are not there.
with top as (
    select c.campaign_id, c.path, c.lineage from taskq.campaign c where c.path = %(path)s
), drawn as materialized (
    select nextval(pg_get_serial_sequence('taskq.campaign', 'campaign_id')) as campaign_id,
           t.campaign_id as parent, t.lineage, t.path || '/' || lpad(n::text, 6, '0') as path
      from top t
      cross join generate_series(%(first)s::integer, %(last)s::integer) n
), made as (
    insert into taskq.campaign (campaign_id, parent_id, path, lineage, handler)
    overriding system value
    select d.campaign_id, d.parent, d.path, d.lineage || d.campaign_id, '{"kind": "command", "argv": ["true"]}'
      from drawn d
), counted as (
    insert into taskq.counter (campaign_id) select d.campaign_id from drawn d
), summed as (
    insert into taskq.subtotal (campaign_id) select d.campaign_id from drawn d
)
insert into taskq.delta (campaign_id, done, children)
select d.campaign_id, 100, null from drawn d
 union all
select d.parent, 0, count(*)::integer from drawn d group by d.parent
