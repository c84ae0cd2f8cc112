-- fold(rest): sums the deltas up, and adds sums as old as `rest` to the counters.
--
-- Result: how many it found that no fold had seen before.
--
-- Locks: the row of `fold`, so that one folds at a time (a second returns 0 at once), and the
-- counters of the campaigns moved. Index: delta_xid.
--
-- Deltas commit in another order than they are written in, so there is no position up to which "all have been
-- seen". A fold removes just those it sees: a delta that commits later is folded later. Every reader sees
-- either the delta or the counter that took it in, since both change in one commit.
--
-- Removed rows stay in the way of readers while anybody holds an old snapshot. So `below` tells
-- readers where to start: all transactions before it had ended when the deltas were looked for.
-- A copy of the database in another cluster may count its transactions from a lower number; there
-- a `below` that lies in the future means nothing.
--
-- Old versions of a counter are in the way too: a reader goes through all that the snapshot keeps. So what
-- moves stays one delta, which each fold writes again above `below`, until it covers the time `rest`. So a counter
-- has at most three versions a minute, however busy its campaign is.
-- @plan no-jit
create or replace function taskq.fold(p_rest interval default '20 s')
returns integer
language plpgsql
as $$
declare
    v_now constant timestamptz := clock_timestamp();
    v_below xid8;
    v_horizon xid8;
    v_folded integer;
begin
    select f.below into v_below
      from taskq.fold f
       for update skip locked;
    if not found then
        return 0;
    end if;
    v_horizon := pg_snapshot_xmin(pg_current_snapshot());
    if v_below > v_horizon then
        v_below := '0';
    end if;

    with gone as (
        delete from taskq.delta d
         where d.xid >= v_below
     returning d.*
    ), total as materialized (
        select g.campaign_id, count(*) filter (where g.since is null) as rows,
               coalesce(min(g.since), v_now) as since,
               sum(g.waiting) as waiting, sum(g.delayed) as delayed, sum(g.working) as working,
               sum(g.done) as done, sum(g.failed) as failed, sum(g.cancelled) as cancelled,
               sum(g.failures) as failures, sum(g.losses) as losses,
               sum(g.first_failures) as first_failures
          from gone g
         group by g.campaign_id
    ), kept as (
        insert into taskq.delta (
               campaign_id, since, waiting, delayed, working, done, failed, cancelled, failures,
               losses, first_failures)
        select t.campaign_id, t.since, t.waiting, t.delayed, t.working, t.done, t.failed,
               t.cancelled, t.failures, t.losses, t.first_failures
          from total t
         where t.since > v_now - p_rest
    ), added as (
        update taskq.counter c
           set waiting = c.waiting + t.waiting,
               delayed = c.delayed + t.delayed,
               working = c.working + t.working,
               done = c.done + t.done,
               failed = c.failed + t.failed,
               cancelled = c.cancelled + t.cancelled,
               failures = c.failures + t.failures,
               losses = c.losses + t.losses,
               first_failures = c.first_failures + t.first_failures
          from total t
         where c.campaign_id = t.campaign_id
           and t.since <= v_now - p_rest
    )
    select sum(t.rows) into v_folded from total t;

    update taskq.fold set below = v_horizon;
    return coalesce(v_folded, 0);
end
$$;
