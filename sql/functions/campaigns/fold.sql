-- fold(rest): sums the deltas up; once the first of them is as old as `rest`, adds the sums to the counters, and to
-- the subtotals of the campaigns above.
--
-- Result: how many it found that no fold had seen before.
--
-- Locks: the row of `fold`, so that one folds at a time (a second returns 0 at once), and the
-- counters of the campaigns moved, with the subtotals above. Nobody changes counters or subtotals without that row.
-- Index: delta_xid, campaign_pkey, counter_pkey, subtotal_pkey.
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
-- moves stays one delta, which each fold writes again above `below`, until the first covers the time `rest`. Then all
-- go at once. So a counter, and the subtotal of the root too, has at most three versions a minute, however busy the
-- campaigns are.
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
     where f.only_one
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
               sum(g.first_failures) as first_failures, sum(g.children) as children
          from gone g
         group by g.campaign_id
    ), due as materialized (
        select min(t.since) <= v_now - p_rest as is_due from total t
    ), kept as (
        insert into taskq.delta (
               campaign_id, since, waiting, delayed, working, done, failed, cancelled, failures,
               losses, first_failures, children)
        select t.campaign_id, t.since, t.waiting, t.delayed, t.working, t.done, t.failed,
               t.cancelled, t.failures, t.losses, t.first_failures, t.children
          from total t
         where not (select u.is_due from due u)
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
               first_failures = c.first_failures + t.first_failures,
               children = c.children + coalesce(t.children, 0)
          from total t
         where c.campaign_id = t.campaign_id
           and (select u.is_due from due u)
     returning t.*
    ), above as (
        select l.campaign_id,
               sum(a.waiting) as waiting, sum(a.delayed) as delayed, sum(a.working) as working,
               sum(a.done) as done, sum(a.failed) as failed, sum(a.cancelled) as cancelled,
               sum(a.failures) as failures, sum(a.losses) as losses
          from added a
         cross join lateral taskq.campaign_of(a.campaign_id) c
         cross join lateral unnest(c.lineage) as l (campaign_id)
         where l.campaign_id <> a.campaign_id
         group by l.campaign_id
    ), summed as (
        update taskq.subtotal s
           set waiting = s.waiting + a.waiting,
               delayed = s.delayed + a.delayed,
               working = s.working + a.working,
               done = s.done + a.done,
               failed = s.failed + a.failed,
               cancelled = s.cancelled + a.cancelled,
               failures = s.failures + a.failures,
               losses = s.losses + a.losses
          from above a
         where s.campaign_id = a.campaign_id
    )
    select sum(t.rows) into v_folded from total t;

    update taskq.fold set below = v_horizon where only_one;
    return coalesce(v_folded, 0);
end
$$;
