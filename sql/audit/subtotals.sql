-- The subtotal of a campaign equals the sums of the counters of all campaigns below it.
--
-- campaign. Rows: the figures that differ, in `text`; all of them, in `rows`.
-- Index: subtotal_pkey, campaign_path_key, counter_pkey.
with compared as (
    select m.name, m.kept, m.found
      from taskq.sum_below(%(campaign)s) b
      left join taskq.subtotal s on s.campaign_id = %(campaign)s
     cross join lateral (
         values ('waiting', s.waiting, b.waiting), ('delayed', s.delayed, b.delayed),
                ('working', s.working, b.working), ('done', s.done, b.done), ('failed', s.failed, b.failed),
                ('cancelled', s.cancelled, b.cancelled), ('failures', s.failures, b.failures),
                ('losses', s.losses, b.losses)
     ) as m (name, kept, found)
)
select null::bigint as task_id,
       string_agg(format('%%s %%s are summed below it, %%s are counted', c.kept, c.name, c.found), '; '
                  order by c.name)
           filter (where c.kept is distinct from c.found) as text,
       jsonb_build_object('summed', jsonb_object_agg(c.name, c.kept),
                          'counted', jsonb_object_agg(c.name, c.found)) as rows
  from compared c
having bool_or(c.kept is distinct from c.found)
