-- enforce_time_limits(): lets a campaign's new time limit bind attempts that were claimed before: those that have
-- been at work for longer wait again, and the answer to their agent's heartbeat stops them. A part of keep(); not
-- for clients.
--
-- Agents know the limit of the moment of the claim. Such an attempt is released and does not count, since it may
-- have waited in its agent; the next one has the new limit from its start.
-- Times in which the queue stood still do not count, see served_ago().
-- Agents that cannot report keep theirs: what has ended there must not be dropped, see cannot_report().
-- Tasks that have one start together wait for each other, and only their agent knows which has begun: they stay.
-- Result: how many were ended, at most 1,000.
--
-- It costs one look-up if no limit was changed. Else it goes through the open sessions, at most 100,000, in each call
-- until no attempt from before the change is at work. Overdue attempts come first, so the others hide none of them.
--
-- Locks: those of settle(). Index: campaign_limited, session_open, task_working, bundle_pkey.
-- @plan generic by-key
create or replace function taskq.enforce_time_limits()
returns integer
language plpgsql
as $$
declare
    v_most constant integer := 1000;
    -- A gateway may hand out a task with terms that it read shortly before the change.
    v_late constant interval := interval '1 minute';
    v_now constant timestamptz := clock_timestamp();
    v_campaigns bigint[];
    v_held jsonb;
    v_one record;
    v_ended integer := 0;
begin
    v_campaigns := array(
        select c.campaign_id
          from taskq.campaign c
         where c.limited_at is not null
         order by c.campaign_id
         limit v_most);
    if v_campaigns = '{}' then
        return 0;
    end if;
    select coalesce(jsonb_agg(to_jsonb(h)), '[]')
      into v_held
      from (
          select h.campaign_id, h.task_id, h.lease_id, n.session_id, c.time_limit_s, d.due_at
            from (
                select s.session_id
                  from taskq.session s
                 where s.ended_at is null
                   and s.session_id <> 0
                   and not taskq.cannot_report(s.said)
                 order by s.session_id
                 limit 100000
            ) n
           cross join lateral (
               select t.campaign_id, t.task_id, t.lease_id, t.claimed_at
                 from taskq.task t
                where t.session_id = n.session_id
                  and t.status = 'working'
                union all
               select b.campaign_id, k.task_id, b.lease_id, b.claimed_at
                 from taskq.bundle b
                cross join lateral unnest(b.tasks) as k (task_id)
                where b.session_id = n.session_id
           ) h
           cross join lateral taskq.campaign_of(h.campaign_id) c
           cross join lateral (
               select h.claimed_at + make_interval(secs => c.time_limit_s) as due_at
           ) d
           where h.campaign_id = any (v_campaigns)
             and h.claimed_at < c.limited_at + v_late
             and c.handler -> 'batch' is null
           order by d.due_at
           limit v_most
      ) h;
    for v_one in
        select h.campaign_id,
               jsonb_agg(jsonb_build_object(
                   'task', h.task_id, 'lease', h.lease_id, 'by', h.session_id, 'outcome', 'released',
                   'error_class', 'time-limit',
                   'error', format('it was at work for longer than the new time limit, %s s', h.time_limit_s))
                   order by h.task_id) as reports
          from jsonb_to_recordset(v_held) as h (
                   campaign_id bigint, task_id bigint, lease_id uuid, session_id bigint,
                   time_limit_s double precision, due_at timestamptz)
         where h.due_at < taskq.served_ago(v_now, h.time_limit_s) + make_interval(secs => h.time_limit_s)
         group by h.campaign_id
         order by h.campaign_id
    loop
        perform taskq.exchange(v_one.campaign_id, v_one.reports::text, null, null, null);
        v_ended := v_ended + jsonb_array_length(v_one.reports);
    end loop;
    if jsonb_array_length(v_held) < v_most then
        update taskq.campaign c
           set limited_at = null
         where c.campaign_id = any (v_campaigns)
           and c.limited_at < v_now - v_late
           and not v_held @> jsonb_build_array(jsonb_build_object('campaign_id', c.campaign_id));
    end if;
    return v_ended;
end
$$;
