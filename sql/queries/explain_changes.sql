-- The last change and the last change of status within a day of each campaign above, at and below one, latest first:
-- when, by whom (a login, or a token) and what; see note_act(); and the status that it has now; null if it is gone.
-- Reads the acts of a day, which are bounded. Index: act_pkey, campaign_path_key.
-- @roles reader
-- @standby yes
-- @gateway manager
select f.campaign, f.changed_at, f.changed_by, f.what, c.status::text as state
  from (
      select g.campaign, g.changed_at, g.changed_by, g.what
        from (
            select distinct on (a.path, a.verb = 'change')
                   a.path as campaign, a.began_at as changed_at, a.who as changed_by,
                   case when a.verb = 'change' then a.what else array['status'] end as what
              from taskq.act a
             where a.ended_at > statement_timestamp() - interval '1 day'
               and a.verb in ('change', 'pause', 'resume', 'cancel')
               and (taskq.at_or_below(a.path, %(path)s) or taskq.at_or_below(%(path)s, a.path))
             order by a.path, a.verb = 'change', a.ended_at desc, a.act_id desc
        ) g
       order by g.changed_at desc, g.campaign
       limit %(limit)s
  ) f
  left join taskq.campaign c on c.path = f.campaign
 order by f.changed_at desc, f.campaign
