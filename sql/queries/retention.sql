-- When the keeper will remove a campaign, or the one above it with which it goes: its path, since when it has ended, for how
-- many seconds that stays, and when it is removed; nothing: no date is known. is_archived: whether it is archived as it is.
-- Index: campaign_path_key, retention_pkey.
-- @roles reader
-- @standby yes
-- @gateway manager
select n.path, r.ended_at, r.keep_s, r.due_at, r.archive_first, n.status = 'archived' as is_archived, r.trouble
  from taskq.campaign c
 cross join lateral unnest(c.lineage) with ordinality as a (campaign_id, depth)
 cross join lateral (
     select b.path, b.status from taskq.campaign b where b.campaign_id = a.campaign_id offset 0
 ) n
 cross join lateral (
     select o.* from taskq.retention o where o.campaign_id = a.campaign_id and o.due_at is not null offset 0
 ) r
 where c.path = %(path)s
 order by r.due_at
 limit 1
