-- note_events(look, found): stores what holds of the campaigns that notification rules name, and makes events of what
-- has held for long enough. Called by a keeper at the end of a look, see begin_look(); what holds is judged in the
-- library, by the rules of `taskq explain`.
--
-- look: as begin_look() gave it. found: what holds, as [{"path", "wanted", "event", "subject", "after_s", "figures"}],
-- 2,000 at most: `wanted` is the word by which rules name it, `event` the code of the reason, `subject` what it is
-- about, `after_s` how long it must hold unless the rule says something else, `figures` its text and numbers.
-- What holds becomes one event when it has held for so long. It can become another after it has ended: `finished` and
-- `paused` at once, all else only after ten minutes without it. What holds when a rule is made counts too.
-- Result: how many events were noted; null: a later look was noted before, so this one is worth nothing.
--
-- Reads no task, no attempt and no campaign: only rules, conditions and events. At most 100 events of a rule have the
-- same code at a time, 200 events of a rule wait, and there are 100 rules; further events come when there is room.
--
-- Locks: the row of notify_watch for the length of the call. Rules, conditions and events are locked by nobody for
-- long.
-- @roles operator
-- @gateway no
-- @plan generic no-jit
create or replace function taskq.note_events(p_look bigint, p_found jsonb)
returns integer
language plpgsql
set enable_seqscan = off
as $$
declare
    v_now constant timestamptz := clock_timestamp();
    v_period constant interval := '10 s';
    v_calm constant interval := '10 min';
    v_subjects constant integer := 100;
    v_waiting constant integer := 200;
    v_true jsonb;
    v_noted integer;
begin
    update taskq.notify_watch w
       set noted = p_look,
           due_at = case when w.look = p_look
                         then v_now + greatest(v_period, 20 * (v_now - w.begun_at))
                         else w.due_at end
     where w.noted < p_look;
    if not found then
        return null;
    end if;

    with held as (
        select distinct on (r.name, t.event, s.subject) r.name as rule, t.event, s.subject,
               coalesce(r.after_s, t.after_s) as after_s, t.figures
          from (select f.value from jsonb_array_elements(p_found) f limit 2000) f
         cross join lateral jsonb_to_record(f.value) as t (
                   path text, wanted text, event text, subject text, after_s double precision, figures jsonb)
         cross join lateral (select left(t.subject, 300) as subject) s
          join taskq.notify_rule r on r.path = t.path and t.wanted = any (r.events)
         order by r.name, t.event, s.subject
    ), placed as (
        select h.*, row_number() over (partition by h.rule, h.event order by h.subject) as place from held h
    )
    select coalesce(jsonb_agg(to_jsonb(p)), '[]') into v_true from placed p where p.place <= v_subjects;

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

    insert into taskq.notify_condition as n (rule, event, subject, since, after_s, figures)
    select t.rule, t.event, t.subject, v_now, t.after_s, t.figures
      from jsonb_to_recordset(v_true) as t (
               rule text, event text, subject text, after_s double precision, figures jsonb)
        on conflict (rule, event, subject) do update
       set gone_at = null,
           figures = excluded.figures
     where n.gone_at is not null
        or not n.noted;

    with rule as materialized (
        select r.name
          from taskq.notify_rule r
         where (select count(*)
                  from taskq.notify_event e
                 where e.rule = r.name
                   and e.status = 'waiting') < v_waiting
    ), noted as (
        update taskq.notify_condition n
           set noted = true
          from rule r
         where n.rule = r.name
           and not n.noted
           and n.gone_at is null
           and n.since + make_interval(secs => n.after_s) <= v_now
     returning n.rule, n.event, n.subject, n.figures
    )
    insert into taskq.notify_event (event_id, rule, event, subject, noted_at, figures)
    select gen_random_uuid(), d.rule, d.event, d.subject, v_now, d.figures
      from noted d;
    get diagnostics v_noted = row_count;

    -- An event that no keeper could send for a day is of no use.
    update taskq.notify_event e
       set status = 'given up',
           ended_at = v_now
     where e.status = 'waiting'
       and e.noted_at < v_now - interval '1 day';
    return v_noted;
end
$$;
