-- note_events(disks, troubles): finds the conditions that notification rules name, and makes events of new ones. Called
-- by every keeper that sends, in each of its rounds.
--
-- A condition is a state of a campaign that holds now, and becomes an event after a time:
--   finished   the campaign and all below it have tasks, and all have ended; after a minute;
--   paused     a campaign above, at or below it is paused, by somebody or by itself; at once;
--   no-agents  tasks wait in open campaigns that no agent at work serves; after five minutes;
--   failing    in a campaign, more than half of the first attempts since its window began failed, and at
--              least 20, see pulse(); at once;
--   slow       tasks wait in open campaigns, and in the last quarter of an hour less than a third as many
--              ended as in such a time before, on average over six hours at most, where that is 20 at
--              least; after ten minutes. By the points of record_trends(), which include all below it;
--   trouble    an explanation of the campaign names what keeps tasks from running, or what is broken; after
--              five minutes;
--   disk       of any campaign: a disk that the caller watches is nearly full; at once.
-- disks: the disks, as [{"disk": "host:/folder", "free": bytes, "size": bytes}], 20 at most.
-- troubles: of the caller's last look, as [{"path", "event", "subject", "figures"}], 2,000 at most; null: it has
-- not looked, and conditions that held still hold.
-- A condition becomes one event when it has held for as long as its rule says. It can become another after
-- it has ended; no-agents, failing, slow, disk and trouble only after ten minutes without it. Conditions that hold
-- when a rule is made count too.
-- Result: how many events were noted; null: there are no rules, it is not yet time to look, or somebody else
-- does.
--
-- One caller looks at a time, five seconds apart, and so rarely that looking takes a twentieth of a server
-- process at most. Cost: counts() for each campaign with rules, three points of its trend, all sessions
-- once, the windows of pulse().
-- Reads no task and no attempt. At most 100 campaigns have events for a rule and kind at a time, 200 events
-- of a rule wait, and there are 100 rules; further events come when there is room.
--
-- Locks: the row of notify_watch for the length of the call; a second caller does not wait. Rules, conditions
-- and events are locked by nobody for long. Index: session_open, campaign_closed, pulse_pkey, counter_pkey,
-- trend_pkey, those of counts().
-- @roles operator
-- @gateway no
-- @plan generic no-jit
create or replace function taskq.note_events(p_disks jsonb default '[]', p_troubles jsonb default null)
returns integer
language plpgsql
set enable_seqscan = off
as $$
declare
    v_now constant timestamptz := clock_timestamp();
    v_period constant interval := '5 s';
    v_calm constant interval := '10 min';
    v_least constant integer := 20;
    v_subjects constant integer := 100;
    v_waiting constant integer := 200;
    v_minute constant integer := floor(extract(epoch from v_now) / 60);
    v_window constant integer := 15;
    v_earlier constant integer := 360;
    v_since timestamptz;
    v_scopes bigint[];
    v_failing jsonb;
    v_path text;
    v_found jsonb;
    v_true jsonb := '[]';
    v_noted integer;
begin
    if not exists (select from taskq.notify_rule) then
        return null;
    end if;
    perform from taskq.notify_watch w where w.due_at <= v_now for update skip locked;
    if not found then
        return null;
    end if;

    -- The campaigns that agents at work serve, with all below them.
    v_since := taskq.serving_since();
    select coalesce(array_agg(distinct s.campaign_id), '{}') into v_scopes
      from taskq.session s
     where s.ended_at is null
       and not s.drain
       and greatest(s.heartbeat_at, v_since) + make_interval(secs => s.lease_s / 2) > v_now;

    with fresh as materialized (
        select d.campaign_id, sum(d.done) as done, sum(d.first_failures) as failures
          from taskq.unfolded() d
         group by d.campaign_id
    ), recent as materialized (
        -- A window begins again five minutes after the last one, if there are failures.
        select p.campaign_id, n.done - p.done as done, n.first_failures - p.failures as failures
          from taskq.pulse p
         cross join lateral taskq.counter_of(p.campaign_id) n
         where p.since > v_now - v_calm
    )
    select coalesce(jsonb_agg(jsonb_build_object(
               'subject', c.path, 'failures', g.failures, 'attempts', g.failures + g.done)), '[]')
      into v_failing
      from (
          select r.campaign_id, r.done + coalesce(f.done, 0) as done,
                 r.failures + coalesce(f.failures, 0) as failures
            from recent r
            left join fresh f on f.campaign_id = r.campaign_id
      ) g
     cross join lateral taskq.campaign_of(g.campaign_id) c
     where g.failures >= v_least
       and g.failures > g.done;

    for v_path in
        select distinct r.path
          from taskq.notify_rule r
         where exists (select from taskq.campaign c where c.path = r.path)
         order by r.path
    loop
        with own as materialized (
            select n.path, n.waiting, n.delayed + n.working as others, n.done, n.failed, n.cancelled,
                   n.waiting > 0 and n.state = 'open' and not c.lineage && v_scopes as unserved,
                   n.state = 'open' as open
              from taskq.counts(v_path, null) n
             cross join lateral taskq.campaign_of(n.campaign_id) c
        ), whole as materialized (
            select sum(o.waiting) + sum(o.others) as unfinished, sum(o.done) as done,
                   sum(o.failed) as failed, sum(o.cancelled) as cancelled,
                   coalesce(sum(o.waiting) filter (where o.unserved), 0) as unserved,
                   count(*) filter (where o.unserved) as campaigns,
                   min(o.path) filter (where o.unserved) as first,
                   coalesce(sum(o.waiting) filter (where o.open), 0) as open
              from own o
        ), pace as materialized (
            -- A campaign at rest gets no points: the last point before an instant holds for it.
            select w.done + w.failed - l.ended as ended,
                   (l.ended - e.ended) * v_window / greatest(v_minute - v_window - e.minute, v_window)
                       as usual
              from whole w
             cross join lateral (
                  select t.done + t.failed as ended
                    from taskq.trend t
                   where t.campaign_id = taskq.campaign_id(v_path)
                     and t.minute <= v_minute - v_window
                   order by t.campaign_id desc, t.minute desc
                   limit 1) l
             cross join lateral (
                  select t.minute, t.done + t.failed as ended
                    from taskq.trend t
                   where t.campaign_id = taskq.campaign_id(v_path)
                     and t.minute >= v_minute - v_window - v_earlier
                   order by t.campaign_id, t.minute
                   limit 1) e
        )
        select jsonb_agg(jsonb_build_object('path', v_path, 'event', k.event, 'subject', k.subject,
                                            'figures', k.figures))
          into v_found
          from (
              select 'finished' as event, v_path as subject,
                     jsonb_build_object('done', w.done, 'failed', w.failed,
                                        'cancelled', w.cancelled) as figures
                from whole w
               where w.unfinished = 0
                 and w.done + w.failed + w.cancelled > 0
               union all
              select 'no-agents', v_path,
                     jsonb_build_object('waiting', w.unserved, 'campaigns', w.campaigns,
                                        'first', w.first)
                from whole w
               where w.unserved > 0
               union all
              select 'slow', v_path, jsonb_build_object('ended', p.ended, 'usual', p.usual)
                from whole w, pace p
               where w.open > 0
                 and p.usual >= v_least
                 and 3 * p.ended < p.usual
               union all
              (select 'paused', c.path, jsonb_build_object('why', left(c.paused_why, 600))
                 from taskq.campaign c
                where c.status <> 'open'  -- as the index has it
                  and c.status = 'paused'
                  and (taskq.at_or_below(c.path, v_path) or taskq.at_or_below(v_path, c.path))
                order by c.path
                limit v_subjects)
               union all
              (select 'failing', f.value ->> 'subject', f.value - 'subject'
                 from jsonb_array_elements(v_failing) f
                where taskq.at_or_below(f.value ->> 'subject', v_path)
                order by f.value ->> 'subject'
                limit v_subjects)
          ) k;
        v_true := v_true || coalesce(v_found, '[]');
    end loop;

    v_true := v_true || (
        select coalesce(jsonb_agg(jsonb_build_object(
                   'path', r.path, 'event', 'disk', 'subject', left(d.value ->> 'disk', 300),
                   'figures', jsonb_build_object('free', d.value -> 'free', 'size', d.value -> 'size'))),
               '[]')
          from (select distinct r.path from taskq.notify_rule r where 'disk' = any (r.events)) r
         cross join (select d.value from jsonb_array_elements(p_disks) d limit 20) d
         where d.value ->> 'disk' is not null)
    || (
        select coalesce(jsonb_agg(t.value), '[]')
          from (select t.value from jsonb_array_elements(p_troubles) t limit 2000) t
         where t.value ->> 'event' = 'trouble')
    || (
        select coalesce(jsonb_agg(jsonb_build_object(
                   'path', r.path, 'event', n.event, 'subject', n.subject, 'figures', n.figures)), '[]')
          from taskq.notify_condition n
          join taskq.notify_rule r on r.name = n.rule
         where p_troubles is null
           and n.event = 'trouble'
           and n.gone_at is null);

    select coalesce(jsonb_agg(t.value || jsonb_build_object('rule', r.name)), '[]') into v_true
      from jsonb_array_elements(v_true) t
      join taskq.notify_rule r on r.path = t.value ->> 'path' and t.value ->> 'event' = any (r.events);

    -- `not in`, which is a hash table: a join of many conditions might be done row by row.
    delete from taskq.notify_condition n
     where (n.rule, n.event, n.subject) not in (
               select t.rule, t.event, t.subject
                 from jsonb_to_recordset(v_true) as t (rule text, event text, subject text))
       and (not n.noted or n.event in ('finished', 'paused') or n.gone_at < v_now - v_calm);

    update taskq.notify_condition n
       set gone_at = v_now
     where n.gone_at is null
       and (n.rule, n.event, n.subject) not in (
               select t.rule, t.event, t.subject
                 from jsonb_to_recordset(v_true) as t (rule text, event text, subject text));

    insert into taskq.notify_condition as n (rule, event, subject, since, figures)
    select t.rule, t.event, t.subject, v_now, t.figures
      from jsonb_to_recordset(v_true) as t (rule text, event text, subject text, figures jsonb)
        on conflict (rule, event, subject) do update
       set gone_at = null,
           figures = excluded.figures
     where n.gone_at is not null
        or not n.noted;

    with rule as materialized (
        select r.name, r.after_s
          from taskq.notify_rule r
         where (select count(*)
                  from taskq.notify_event e
                 where e.rule = r.name
                   and e.status = 'waiting') < v_waiting
    ), due as materialized (
        select n.rule, n.event, n.subject, n.figures
          from rule r
          join taskq.notify_condition n on n.rule = r.name
         where not n.noted
           and n.gone_at is null
           and n.since + make_interval(secs => coalesce(
                   r.after_s, case n.event when 'finished' then 60 when 'no-agents' then 300
                                         when 'trouble' then 300
                                         when 'slow' then 600 else 0 end))
               <= v_now
    ), noted as (
        update taskq.notify_condition n
           set noted = true
          from due d
         where (n.rule, n.event, n.subject) = (d.rule, d.event, d.subject)
    )
    insert into taskq.notify_event (event_id, rule, event, subject, noted_at, figures)
    select gen_random_uuid(), d.rule, d.event, d.subject, v_now, d.figures
      from due d;
    get diagnostics v_noted = row_count;

    -- An event that no keeper could send for a day is of no use.
    update taskq.notify_event e
       set status = 'given up',
           ended_at = v_now
     where e.status = 'waiting'
       and e.noted_at < v_now - interval '1 day';

    update taskq.notify_watch
       set due_at = v_now + greatest(v_period, 20 * (clock_timestamp() - v_now));
    return v_noted;
end
$$;
