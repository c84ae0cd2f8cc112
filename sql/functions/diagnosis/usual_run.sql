-- usual_run(campaign, most): how long an attempt of a campaign takes, on average: from claim to end, or where many
-- tasks have one start, its share of that, see ran_s().
--
-- attempts: how many of those looked at were done or failed. mean_s: seconds; null: none was. batch: how many tasks
-- have one start at most. spread: the standard deviation, as a share of mean_s. youngest_s: how long the latest of
-- those looked at that run has run; null: none runs, or many tasks have one start.
--
-- Attempts that end first are the short ones. So running attempts count too, and so do those that were cut off by a
-- lost agent or the end of a job: each would last longer than it has so far. Of tasks of one start nobody knows how
-- long they have run. mean_s is the area below the estimate of Kaplan and Meier (J. Am. Stat. Assoc. 53, 1958), up to
-- the longest time seen. It is right as soon as agents have worked for longer than the longest attempt takes, and too
-- small before, never too large.
--
-- Looks at `most` tasks, evenly taken from those claimed last: from more and more of these, until nine of ten have
-- ended. Of the latest of many tasks at work only the shortest have. Claims go in the order of ids. Reads 200,000
-- entries of spec_pkey at most, and the tasks looked at by key; entries of the front's lists do not count. Plans: see
-- tasks(). Index: attempt_pkey, bundle_task, task_pkey, spec_pkey, span_pkey.
-- @roles reader
-- @standby yes
-- @gateway manager
-- @plan generic by-key
create or replace function taskq.usual_run(
    p_campaign bigint,
    p_most integer,
    out attempts bigint,
    out mean_s double precision,
    out batch integer,
    out spread double precision,
    out youngest_s double precision
)
language plpgsql stable
as $$
declare
    v_entries constant integer := 100000;
    v_now constant timestamptz := clock_timestamp();
    v_last bigint := greatest(
        (select a.task_id
           from taskq.attempt a
          where a.campaign_id = p_campaign
          order by a.campaign_id desc, a.task_id desc
          limit 1),
        (select (select max(k.task_id) from unnest(b.tasks) as k (task_id))
           from taskq.bundle b
          where b.campaign_id = p_campaign
          order by b.campaign_id desc, b.first_id desc
          limit 1));
    v_each integer := 1;
    v_tasks bigint;
    v_runs double precision[];
    v_ended boolean[];
    v_seen integer;
    v_alive double precision := 1;
    v_before double precision := 0;
    v_squares double precision := 0;
begin
    batch := coalesce(
        (select (c.handler ->> 'batch')::integer from taskq.campaign c where c.campaign_id = p_campaign), 1);
    loop
        select count(distinct s.task_id),
               array_agg(o.run_s order by o.run_s, o.ended desc) filter (where o.run_s is not null),
               array_agg(o.ended order by o.run_s, o.ended desc) filter (where o.run_s is not null),
               count(*) filter (where o.ended), count(o.run_s), min(t.run_s)
          into v_tasks, v_runs, v_ended, attempts, v_seen, youngest_s
          from (
              select s.task_id, row_number() over (order by s.task_id desc) as place
                from (
                    select s.task_id
                      from taskq.spec s
                     where s.campaign_id = p_campaign
                       and s.task_id <= v_last
                     order by s.campaign_id desc, s.task_id desc
                     limit p_most::bigint * v_each
                ) s
          ) s
          left join lateral (
              select case when batch > 1 then taskq.ran_s(a.phases, a.claimed_at, a.ended_at)
                          else extract(epoch from a.ended_at - a.claimed_at) end as run_s,
                     a.outcome in ('done', 'failed') as ended
                from taskq.attempt a
               where a.campaign_id = p_campaign
                 and a.task_id = s.task_id
                 and (batch = 1 or a.outcome in ('done', 'failed'))
              offset 0
          ) a on true
          left join lateral (
              select extract(epoch from v_now - t.claimed_at) as run_s
                from taskq.task_state(p_campaign, s.task_id) t
               where a.run_s is null
                 and t.session_id <> 0
                 and batch = 1
              offset 0
          ) t on true
         cross join lateral (
              select coalesce(a.run_s, t.run_s)::double precision as run_s,
                     coalesce(a.ended, false) as ended
          ) o
         where s.place % v_each = 0;
        exit when attempts * 10 >= v_seen * 9 or v_tasks < p_most or p_most::bigint * v_each * 2 > v_entries;
        v_each := v_each * 2;
    end loop;
    if attempts = 0 then
        return;
    end if;
    mean_s := 0;
    for n in 1 .. v_seen loop
        mean_s := mean_s + v_alive * (v_runs[n] - v_before);
        v_squares := v_squares + v_alive * (v_runs[n] ^ 2 - v_before ^ 2);
        v_before := v_runs[n];
        if v_ended[n] then
            v_alive := v_alive * (v_seen - n) / (v_seen - n + 1);
        end if;
    end loop;
    spread := coalesce(sqrt(greatest(0, v_squares - mean_s ^ 2)) / nullif(mean_s, 0), 0);
end
$$;
