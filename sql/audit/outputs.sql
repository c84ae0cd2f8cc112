-- The bytes counted for a campaign's output files, against output_total_bytes, and for its large arguments are those
-- that are stored.
--
-- campaign. Rows: see counts.sql. Index: output_pkey, argument_pkey, output_use_pkey.
select null::bigint as task_id,
       format('%%s bytes of %%s are stored, and %%s are counted', n.stored, n.what, n.counted) as text,
       jsonb_build_object('stored', n.stored, 'counted', n.counted) as rows
  from (
      select 'output files' as what,
             (select coalesce(sum(o.size), 0) from taskq.output o where o.campaign_id = %(campaign)s) as stored,
             (select coalesce(sum(u.bytes), 0)
                from taskq.output_use u
               where u.campaign_id = %(campaign)s
                 and u.token_id >= 0) as counted
       union all
      select 'arguments',
             (select coalesce(sum(g.size), 0) from taskq.argument g where g.campaign_id = %(campaign)s),
             (select coalesce(sum(u.bytes), 0)
                from taskq.output_use u
               where u.campaign_id = %(campaign)s
                 and u.token_id = -1)
  ) n
 where n.stored <> n.counted
