-- Of each campaign at or below a path with points within so many minutes: how old the first of them is, how
-- many tasks had ended then, and how many agents serve it by the last. Index: trend_pkey, at most all of it,
-- which is bounded; campaign_path_key.
-- @roles reader
-- @standby yes
-- @gateway manager
select campaign_id,
       extract(epoch from clock_timestamp())::double precision
           - min(minute) * 60.0::double precision as age_s,
       (array_agg(done + failed order by minute))[1] as ended,
       (array_agg(agents order by minute desc))[1] as agents
  from taskq.trend
 where minute >= extract(epoch from clock_timestamp()) / 60 - %(minutes)s::integer
   and campaign_id in (
       select c.campaign_id
         from taskq.campaign c
        where c.path = %(path)s
           or (c.path > rtrim(%(path)s, '/') || '/' and c.path < rtrim(%(path)s, '/') || '0'))
 group by campaign_id
