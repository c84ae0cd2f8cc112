-- fails_beside(token, host, campaigns, chance): whether more fails on a host than on others in the same campaigns at
-- the same time; true also where no attempts of the host are known. A part of judge_hosts(); not for clients.
--
-- Heartbeats come one after another, and what they say of attempts has no time. So when a program breaks everywhere,
-- the first host that says so is compared with what others did before; and one that works no more in the campaign says
-- for hours how well it went. Attempts have times. Of the latest 32 first attempts of the host, those from the first
-- failure on count, and of others what ended since then: failures with the same classes, and successes. Attempts
-- there that have run for longer by now than the failures took count as successes. Where nobody else has tried since
-- then, nothing is known.
--
-- The statistics are those of judge_hosts(). Reads of each campaign the latest 5,000 attempts of the tasks seeded last,
-- and the tasks of 1,000 sessions if these say little. Index: attempt_pkey, session_pkey, session_open, task_working,
-- bundle_pkey.
-- @plan generic by-key
create or replace function taskq.fails_beside(
    p_token bigint, p_host text, p_campaigns bigint[], p_chance double precision)
returns boolean
language plpgsql stable
as $$
declare
    v_now constant timestamptz := clock_timestamp();
    v_enough constant integer := 30;
    v_campaign bigint;
    v_own record;
    v_others_failed double precision;
    v_others_tried double precision;
    v_a double precision;
    v_b double precision;
    v_known boolean := false;
    v_failed double precision := 0;
    v_tried double precision := 0;
    v_mean double precision := 0;
    v_variance double precision := 0;
begin
    foreach v_campaign in array p_campaigns loop
        with ended as materialized (
            select n.host = p_host as is_own, n.suspect is null as is_usual, a.ended_at,
                   a.outcome::text = 'failed' as failed, coalesce(a.error_class, '') as error_class,
                   taskq.ran_s(a.phases, a.claimed_at, a.ended_at) as run_s
              from (
                  select a.*
                    from taskq.attempt a
                   where a.campaign_id = v_campaign
                   order by a.campaign_id desc, a.task_id desc, a.attempt desc
                   limit 5000
              ) a
             cross join lateral taskq.session_of(a.session_id) n
             where a.attempt = 1
               and a.outcome::text in ('done', 'failed')
               and a.refused is not true
               and coalesce(n.token_id, 0) = p_token
        ), own as materialized (
            select e.* from ended e where e.is_own order by e.ended_at desc limit 32
        ), begun as (
            select min(o.ended_at) as at, array_agg(distinct o.error_class) as classes, max(o.run_s) as run_s
              from own o
             where o.failed
        )
        select (select count(*) from own) as known, b.run_s,
               (select count(*) from own o where o.failed) as failed,
               (select count(*) from own o where o.ended_at >= b.at) as tried,
               others.failed as others_failed, others.tried as others_tried
          into v_own
          from begun b
         cross join lateral (
             select count(*) filter (where e.failed) as failed, count(*) as tried
               from ended e
              where not e.is_own
                and e.is_usual
                and e.ended_at >= b.at
                and (not e.failed or e.error_class = any (b.classes))
         ) others;
        continue when v_own.known = 0;
        v_known := true;
        continue when v_own.failed = 0;
        v_others_failed := v_own.others_failed;
        v_others_tried := v_own.others_tried;
        if v_others_tried < v_enough then
            v_others_tried := v_others_tried + (
                select coalesce(sum(least(s.slots, r.tasks)), 0)
                  from (
                      select o.*
                        from taskq.session o
                       where o.ended_at is null
                       order by o.session_id
                       limit 1000
                  ) s
                 cross join lateral (
                     select coalesce(sum(h.tasks), 0) as tasks
                       from taskq.held_of(s.session_id) h
                      where h.campaign_id = v_campaign
                        and h.claimed_at < v_now - make_interval(secs => v_own.run_s)
                 ) r
                 where coalesce(s.token_id, 0) = p_token
                   and s.host <> p_host
                   and s.suspect is null);
        end if;
        continue when v_others_tried = 0;
        v_a := v_others_failed * least(1, v_enough / v_others_tried) + 0.5;
        v_b := (v_others_tried - v_others_failed) * least(1, v_enough / v_others_tried) + 0.5;
        v_failed := v_failed + v_own.failed;
        v_tried := v_tried + v_own.tried;
        v_mean := v_mean + v_own.tried * v_a / (v_a + v_b);
        v_variance := v_variance + v_own.tried * v_a * v_b * (v_a + v_b + v_own.tried)
                                   / ((v_a + v_b) ^ 2 * (v_a + v_b + 1));
    end loop;
    if not v_known then
        return true;
    end if;
    return v_tried > 0
           and v_failed > v_mean
           and taskq.chance_of_more(v_failed, v_tried, v_mean, v_variance) < p_chance;
end
$$;
