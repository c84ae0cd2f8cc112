-- Nothing that was committed while the campaign existed is gone. The audit reports a loss for 30 days.
--
-- campaign. Rows: see counts.sql. Index: set_back_pkey.
select null::bigint as task_id,
       format('up to %%s s of what was acknowledged until %%s are gone: a server took over that lacked them',
              ceil(extract(epoch from b.gone_until - b.gone_since)), date_trunc('second', b.gone_until)) as text,
       to_jsonb(b) as rows
  from taskq.set_back b
  join taskq.campaign c on c.created_at < b.gone_until
 where c.campaign_id = %(campaign)s
   and b.noted_at > clock_timestamp() - interval '30 days'
 order by b.noted_at
