-- record_trends(now): writes a point of the trend of each campaign that moves, once a minute. Called by
-- the keeper.
--
-- Result: how many points it wrote; 0: this minute has some already.
-- A campaign moves while it has working tasks, if its counts differ from those of its last point, or if its first
-- agent has come or its last one gone. Counts include all campaigns below, so a campaign above moves at least as
-- much; if more than a thousand move, those that move most get points. The root always gets one: it says that the
-- minute is recorded. What was removed still counts, see `removed_sum`.
--
-- Goes once through campaigns, counters, open sessions and the trends, whatever the number of tasks:
-- some milliseconds for 1,000 campaigns. Points in the future, such as after a jump of the clock, are deleted.
-- Locks: none that others wait for. Index: campaign_pkey, counter_pkey, delta_xid, removed_sum_pkey, session_open, trend_pkey.
--
-- The settings leave one plan: each table is gone through once, by an index, and joined by merging or
-- hashing.
-- @plan generic by-scan
create or replace function taskq.record_trends(p_now timestamptz default clock_timestamp())
returns integer
language plpgsql
as $$
declare
    v_most constant integer := 1000;
    v_minute constant integer := floor(extract(epoch from p_now) / 60);
    v_root constant bigint := taskq.campaign_id('/');
    v_last constant integer := (select max(t.minute) from taskq.trend t where t.campaign_id = v_root);
    v_written integer;
begin
    if v_last between v_minute and v_minute + 1 then
        return 0;
    end if;
    if v_last > v_minute then
        delete from taskq.trend t where t.minute >= v_minute;
    end if;

    with fresh as (
        select d.campaign_id, sum(d.done) as done, sum(d.failed) as failed,
               sum(d.failures) + sum(d.losses) as failures,
               sum(d.waiting) + sum(d.delayed) + sum(d.working) as unfinished,
               sum(d.working) as working
          from taskq.unfolded() d
         group by d.campaign_id
    ), part as (
        -- Each campaign counts for those above it too.
        select unnest(c.lineage) as campaign_id,
               n.done + coalesce(f.done, 0) as done,
               n.failed + coalesce(f.failed, 0) as failed,
               n.failures + n.losses + coalesce(f.failures, 0) as failures,
               n.waiting + n.delayed + n.working + coalesce(f.unfinished, 0) as unfinished,
               n.working + coalesce(f.working, 0) as working
          from taskq.campaign c
          join taskq.counter n on n.campaign_id = c.campaign_id
          left join fresh f on f.campaign_id = c.campaign_id
         union all
        select unnest(c.lineage), r.done, r.failed, r.failures, 0, 0
          from taskq.removed_sum r
          join taskq.campaign c on c.campaign_id = r.campaign_id
    ), node as (
        select p.campaign_id, sum(p.done) as done, sum(p.failed) as failed,
               sum(p.failures) as failures, sum(p.unfinished) as unfinished,
               sum(p.working) as working
          from part p
         group by p.campaign_id
    ), scope as (
        select s.campaign_id, count(*) as agents
          from taskq.session s
         where s.ended_at is null
           and s.session_id <> 0
         group by s.campaign_id
    ), lineage as (
        select c.campaign_id, unnest(c.lineage) as above from taskq.campaign c
    ), reach as (
        select l.campaign_id, s.agents
          from lineage l
          join scope s on s.campaign_id = l.above
         union all
        select l.above, s.agents
          from lineage l
          join scope s on s.campaign_id = l.campaign_id
         where l.above <> l.campaign_id
    ), served as (
        select r.campaign_id, sum(r.agents) as agents from reach r group by r.campaign_id
    ), latest as (
        select distinct on (t.campaign_id) t.*
          from taskq.trend t
         order by t.campaign_id desc, t.minute desc
    )
    insert into taskq.trend (
           campaign_id, minute, done, failed, failures, unfinished, working, agents)
    select n.campaign_id, v_minute, n.done, n.failed, n.failures, n.unfinished, n.working,
           coalesce(s.agents, 0)
      from node n
      left join served s on s.campaign_id = n.campaign_id
      left join latest t on t.campaign_id = n.campaign_id
     where n.campaign_id = v_root
        or n.working > 0
        or n.unfinished > 0 and (coalesce(s.agents, 0) = 0) <> (coalesce(t.agents, 0) = 0)
        or (n.done, n.failed, n.failures, n.unfinished, n.working)
           <> (coalesce(t.done, 0), coalesce(t.failed, 0), coalesce(t.failures, 0),
               coalesce(t.unfinished, 0), coalesce(t.working, 0))
     order by n.campaign_id <> v_root,
              n.working + abs(n.done + n.failed - coalesce(t.done + t.failed, 0)) desc, n.campaign_id
     limit v_most
        on conflict do nothing;
    get diagnostics v_written = row_count;

    if v_minute % 10 = 0 then
        perform taskq.thin_trends(v_minute);
    end if;
    return v_written;
end
$$;
