-- The last change within a day of each campaign above, at and below one, latest first: when, by whom (a login, or a
-- token) and what; see note_change().
-- Reads the row of each campaign that was ever changed. Index: campaign_pkey.
-- @roles reader
-- @standby yes
-- @gateway manager
select c.path as campaign, r.changed_at, r.changed_by, r.what
  from taskq.refused r
 cross join lateral (
     select c.path from taskq.campaign c where c.campaign_id = r.campaign_id offset 0
 ) c
 where r.changed_at > statement_timestamp() - interval '1 day'
   and (taskq.at_or_below(c.path, %(path)s) or taskq.at_or_below(%(path)s, c.path))
 order by r.changed_at desc, c.path
 limit %(limit)s
