-- Conditions that need attention: silent agents whose tasks are held, and campaigns that paused
-- themselves. Index: campaign_closed; the brake is one row.
-- @roles gateway reader
-- @standby no
-- @gateway no
select coalesce((select b.silent from taskq.brake b where b.since is not null), 0) as held,
       (select count(*) from taskq.campaign c
         where c.status = 'paused' and c.paused_why is not null) as paused
