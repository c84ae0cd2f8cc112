-- The next tasks of a campaign, `most` of them: how many they are, and the last id.
-- @roles reader
-- @standby no
-- @gateway no
select count(*) as tasks, max(p.task_id) as last
  from (
      select s.task_id
        from taskq.spec s
       where s.campaign_id = %(campaign)s
         and s.task_id > %(after)s
       order by s.campaign_id, s.task_id
       limit %(most)s
  ) p
