-- Campaigns with tasks that are leased ahead and not named by an agent yet, and campaigns for which
-- agents ask; by path. Index: task_working.
-- @roles reader
-- @standby no
-- @gateway no
with ahead as materialized (
    select t.campaign_id, count(*) as leased
      from taskq.task t
     where t.session_id = 0
       and t.status = 'working'
     group by t.campaign_id
)
select c.campaign_id, c.path, coalesce(a.leased, 0) as leased
  from (
      select a.campaign_id from ahead a
       union
      select asked.campaign_id from unnest(%(campaigns)s::bigint[]) as asked (campaign_id)
  ) k
  join taskq.campaign c on c.campaign_id = k.campaign_id
  left join ahead a on a.campaign_id = k.campaign_id
 order by c.path
