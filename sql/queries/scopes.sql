-- How many agents serve each campaign at or below a path, with all below it; agents that serve a campaign above the
-- path count as those of the path. Index: session_open, campaign_pkey, campaign_path_key.
-- @roles reader
-- @standby yes
-- @gateway manager
select case when c.lineage @> array[t.campaign_id] then c.campaign_id else t.campaign_id end as campaign_id,
       sum(s.agents)::bigint as agents
  from (
      select campaign_id, count(*) as agents
        from taskq.session
       where ended_at is null
         and session_id <> 0
       group by campaign_id
  ) s
 cross join (
     select campaign_id, lineage from taskq.campaign where path = %(path)s
 ) t
 cross join lateral (
     select campaign_id, lineage from taskq.campaign where campaign_id = s.campaign_id offset 0
 ) c
 where c.lineage @> array[t.campaign_id]
    or t.lineage @> array[c.campaign_id]
 group by 1
