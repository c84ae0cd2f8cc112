-- pause_failing(last): pauses the campaigns in which nearly everything fails. Called by the keeper.
--
-- last: the instant of the last call: failures seen for the first time happened since then. A campaign is
-- paused when failures of first attempts and done tasks since its window began are at least 100 together, and
-- the failures are a larger share than its max_failure_share. Failures of later attempts do not count: tasks
-- that fail everywhere would stop those that nobody has tried. A success counts whenever it comes.
--
-- One bad host must not stop a campaign: it pauses only if as large a share fails on three machines, or on all that
-- serve it if these are fewer; and attempts that outlast those that failed count as successes. See failing_machines().
-- The failing host is held back by its own agents, which make one attempt at a time, and by judge_hosts(). A window
-- begins with the first such failure that is seen, five minutes after the last began, and when the campaign
-- is resumed. Each campaign is judged alone, without those above or below it.
-- Result: the paths of those that were paused; null: none. Why they are is in paused_why.
--
-- Looks only at campaigns in which first attempts failed within the last twenty seconds: the others cannot
-- have got worse. It finds them among the unfolded deltas, so it costs as much as a fold, however many
-- campaigns and tasks there are; it reads attempts only of campaigns that it may pause.
--
-- Locks: the rows of pulse that begin a window; of campaigns that are paused, skipping locked ones: the next call
-- comes soon. Index: delta_xid, counter_pkey, pulse_pkey, campaign_pkey.
--
-- The settings, and `offset 0`, leave one plan: from the campaigns that moved, to all else by key.
-- @plan generic by-key
create or replace function taskq.pause_failing(p_last timestamptz)
returns text[]
language plpgsql
as $$
declare
    v_window constant interval := '5 min';
    v_least constant integer := 100;
    v_now constant timestamptz := clock_timestamp();
    v_last constant timestamptz := greatest(p_last, v_now - interval '1 hour');
    v_machines constant integer := 3;
    v_failing record;
    v_found record;
    v_paused text[];
begin
    -- A window begins with the counter, without the moves that are not folded yet.
    insert into taskq.pulse as p (campaign_id, since, done, failures)
    select f.campaign_id, f.since, n.done, n.first_failures
      from (
          -- A failure may have come as long before the first look at it as two looks are apart.
          select d.campaign_id, coalesce(min(d.since), v_now) - (v_now - v_last) as since
            from taskq.unfolded() d
           group by d.campaign_id
          having sum(d.first_failures) > 0
      ) f
     cross join lateral taskq.counter_of(f.campaign_id) n
     where (select o.since
              from taskq.pulse o
             where o.campaign_id = f.campaign_id) < v_now - v_window is not false
     order by f.campaign_id
        on conflict (campaign_id) do update
       set since = excluded.since,
           done = excluded.done,
           failures = excluded.failures
     where p.since < v_now - v_window;

    for v_failing in
        select c.campaign_id, c.path, c.max_failure_share, g.since, g.failures,
               g.failures + g.done as attempts
          from (
              select d.campaign_id, sum(d.done) as done, sum(d.first_failures) as failures
                from taskq.unfolded() d
               group by d.campaign_id
              having sum(d.first_failures) > 0
          ) f
         cross join lateral (
             select n.done + f.done - p.done as done,
                    n.first_failures + f.failures - p.failures as failures, p.since
               from taskq.counter n
               join taskq.pulse p on p.campaign_id = n.campaign_id
              where n.campaign_id = f.campaign_id
             offset 0
         ) g
         cross join lateral taskq.campaign_of(f.campaign_id) c
         where c.status = 'open'
           and g.failures + g.done >= v_least
           and g.failures > c.max_failure_share * (g.failures + g.done)
         order by c.campaign_id
    loop
        v_found := taskq.failing_machines(v_failing.campaign_id, v_failing.since, v_failing.max_failure_share);
        -- What fails on hosts that are being repaired says nothing about the campaign.
        continue when v_found.spared > 0
                  and v_failing.failures - v_found.spared
                      <= v_failing.max_failure_share * (v_failing.attempts - v_found.spared);
        -- Where few of the failures were seen, as with priorities, nothing is known about machines.
        continue when v_found.seen * 2 >= v_failing.failures
                  and (v_found.failing < least(v_machines, v_found.serving)
                       or v_failing.failures
                          <= v_failing.max_failure_share * (v_failing.attempts + v_found.outlasting));
        perform
           from taskq.campaign c
          where c.campaign_id = v_failing.campaign_id
            and c.status = 'open'
            for no key update skip locked;
        if found then
            update taskq.campaign c
               set status = 'paused',
                   paused_why = format(
                       '%s of %s attempts failed within %s s%s', v_failing.failures,
                       v_failing.attempts,
                       greatest(1, ceil(extract(epoch from v_now - v_failing.since))),
                       ', mostly ' || taskq.usual_class(v_failing.campaign_id, v_failing.since))
             where c.campaign_id = v_failing.campaign_id;
            v_paused := v_paused || v_failing.path;
        end if;
    end loop;
    return v_paused;
end
$$;
