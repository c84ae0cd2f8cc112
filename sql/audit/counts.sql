-- Counters equal a recount of tasks by status, of attempts that failed or were lost, and of the campaigns directly below.
-- A salvaged attempt counts as a loss.
--
-- campaign. Rows: the counters that differ, in `text`; all figures, in `rows`.
-- Index: counter_pkey, delta_xid, task_pkey, attempt_pkey, campaign_parent.
with counted as (
    select m.name, m.number
      from (
          select coalesce(sum(n.waiting), 0) as waiting, coalesce(sum(n.delayed), 0) as delayed,
                 coalesce(sum(n.working), 0) as working, coalesce(sum(n.done), 0) as done,
                 coalesce(sum(n.failed), 0) as failed, coalesce(sum(n.cancelled), 0) as cancelled,
                 coalesce(sum(n.failures), 0) as failures, coalesce(sum(n.losses), 0) as losses,
                 coalesce(sum(n.children), 0) as children
            from (
                select c.waiting, c.delayed, c.working, c.done, c.failed, c.cancelled, c.failures,
                       c.losses, c.children
                  from taskq.counter c
                 where c.campaign_id = %(campaign)s
                 union all
                select d.waiting, d.delayed, d.working, d.done, d.failed, d.cancelled, d.failures,
                       d.losses, d.children
                  from taskq.unfolded() d
                 where d.campaign_id = %(campaign)s
            ) n
      ) n
     cross join lateral (
         values ('waiting', n.waiting), ('delayed', n.delayed), ('working', n.working),
                ('done', n.done), ('failed', n.failed), ('cancelled', n.cancelled),
                ('failures', n.failures), ('losses', n.losses), ('children', n.children)
     ) as m (name, number)
), found as (
    select t.status::text as name, count(*) as number
      from taskq.states(%(campaign)s, 0, 9223372036854775807) t
     group by t.status
     union all
    select 'children', count(*) from taskq.campaign b where b.parent_id = %(campaign)s
     union all
    select m.name, m.number
      from (
          select count(*) filter (where a.outcome = 'failed') as failures,
                 count(*) filter (where taskq.is_loss(a.outcome, a.error_class)) as losses
            from taskq.attempt a
           where a.campaign_id = %(campaign)s
      ) n
     cross join lateral (values ('failures', n.failures), ('losses', n.losses)) as m (name, number)
), compared as (
    select c.name, c.number as counted, coalesce(f.number, 0) as found
      from counted c
      left join found f on f.name = c.name
)
select null::bigint as task_id,
       string_agg(format('%%s %%s are counted, %%s are there', c.counted, c.name, c.found), '; '
                  order by c.name)
           filter (where c.counted <> c.found) as text,
       jsonb_build_object('counted', jsonb_object_agg(c.name, c.counted),
                          'found', jsonb_object_agg(c.name, c.found)) as rows
  from compared c
having bool_or(c.counted <> c.found)
