-- The points of a campaign's trend within so many minutes (null: all), oldest first. Index: trend_pkey.
-- @roles reader
-- @standby yes
-- @gateway manager
select to_timestamp(minute * 60.0) as at,
       extract(epoch from clock_timestamp())::double precision - minute * 60.0::double precision as age_s,
       done, failed, failures, unfinished, working, agents
  from taskq.trend
 where campaign_id = %(campaign)s
   and minute >= extract(epoch from clock_timestamp()) / 60 - coalesce(%(minutes)s::integer, 1000000)
 order by campaign_id, minute
