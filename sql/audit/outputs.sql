-- What is counted of a campaign's output files, against output_total_bytes, is what is stored.
--
-- campaign. Rows: see counts.sql. Index: output_pkey, output_use_pkey.
select null::bigint as task_id,
       format('%%s bytes of output files are stored, and %%s are counted', n.stored, n.counted) as text,
       jsonb_build_object('stored', n.stored, 'counted', n.counted) as rows
  from (
      select (select coalesce(sum(o.size), 0) from taskq.output o where o.campaign_id = %(campaign)s) as stored,
             (select coalesce(sum(u.bytes), 0)
                from taskq.output_use u
               where u.campaign_id = %(campaign)s) as counted
  ) n
 where n.stored <> n.counted
