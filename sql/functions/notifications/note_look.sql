-- note_look(look, looked, found): stores what is wrong at the campaigns at which a keeper has looked, and makes events
-- of what has held for long enough. Called at the end of a look, see begin_look(); what is wrong is judged in the
-- library, by the rules of `taskq explain`.
--
-- look: as begin_look() gave it. looked: where the look succeeded, as [{"path", "whole"}]. found: what holds there, as
-- [{"path", "whole", "code", "subject", "word", "after_s", "listed", "about", "site", "host", "since", "cost", "tasks",
-- "lost", "blocks", "maintenance", "figures"}], 2,000 at most: `word` is that by which rules name it, `subject` the names that it is
-- about, `about` the campaign that has all of it, `after_s` how long it must hold unless the rule says something else,
-- `figures` its text, its commands and its numbers.
-- What holds is one trouble while it holds, with gaps of up to ten minutes; `finished` and `paused` with none. It
-- becomes one event of each rule when it has held for so long without a gap. What holds when a rule is made counts too.
-- No event: it is expected in a maintenance window; it is acknowledged, or snoozed. If it then costs twice as much, or where that is unknown has cost twice as
-- many attempts, neither counts any more, and it becomes an event again; so it does after a snooze.
-- Result: how many events were noted; null: a later look was noted before, so this one is worth nothing.
--
-- Reads no task, no attempt and no campaign: only rules, tokens, troubles and events. A campaign has at most 100
-- troubles of one code at a time, 200 events of a rule wait, and there are 100 rules; further events come when there is
-- room. Troubles that are over stay for three days, 1,000 at most; those that did not last are forgotten at once.
--
-- Locks: the row of notify_watch for the length of the call. Rules, troubles and events are locked by nobody for long.
-- @roles operator
-- @gateway no
-- @act no: keepers look
-- @plan generic no-jit
create or replace function taskq.note_look(p_look bigint, p_looked jsonb, p_found jsonb)
returns integer
language plpgsql
set enable_seqscan = off
as $$
declare
    v_now constant timestamptz := clock_timestamp();
    v_period constant interval := '10 s';
    v_calm constant interval := '10 min';
    v_kept constant interval := '3 days';
    v_most_over constant integer := 1000;
    v_subjects constant integer := 100;
    v_waiting constant integer := 200;
    v_last bigint;
    v_new bigint;
    v_true jsonb;
    v_noted integer;
begin
    update taskq.notify_watch w
       set noted = p_look,
           due_at = case when w.look = p_look
                         then v_now + greatest(v_period, 20 * (v_now - w.begun_at))
                         else w.due_at end
     where w.only_one
       and w.noted < p_look
 returning w.troubles into v_last;
    if not found then
        return null;
    end if;

    with held as (
        select distinct on (t.path, t.whole, t.code, s.subject)
               t.path as watched, t.whole, t.code, s.subject, t.word, t.after_s, t.listed, t.about as path,
               left(t.site, 200) as site, left(t.host, 200) as host, t.since, t.cost, t.tasks, t.lost, t.blocks,
               t.maintenance, t.figures
          from (select f.value from jsonb_array_elements(p_found) f limit 2000) f
         cross join lateral jsonb_to_record(f.value) as t (
                   path text, whole boolean, code text, subject text, word text, after_s double precision,
                   listed boolean, about text, site text, host text, since timestamptz, cost double precision,
                   tasks bigint, lost bigint, blocks boolean, maintenance bigint, figures jsonb)
         cross join lateral (select left(t.subject, 300) as subject) s
         order by t.path, t.whole, t.code, s.subject, t.cost desc nulls last
    ), placed as (
        select h.*, row_number() over (partition by h.watched, h.whole, h.code order by h.subject) as place from held h
    )
    select coalesce(jsonb_agg(to_jsonb(p)), '[]') into v_true from placed p where p.place <= v_subjects;

    -- `not in`, which is a hash table: a join of many troubles might be done row by row.
    update taskq.known_trouble t
       set gone_at = v_now
     where not t.closed
       and t.gone_at is null
       and (t.watched, t.whole) in (
               select l.path, l.whole from jsonb_to_recordset(p_looked) as l (path text, whole boolean))
       and (t.watched, t.whole, t.code, t.subject) not in (
               select f.watched, f.whole, f.code, f.subject
                 from jsonb_to_recordset(v_true) as f (watched text, whole boolean, code text, subject text));

    -- Where nobody looks any more, nothing is known.
    update taskq.known_trouble t
       set gone_at = coalesce(t.gone_at, t.seen_at),
           closed = true
     where not t.closed
       and (t.code in ('finished', 'paused') and t.gone_at is not null
            or t.gone_at < v_now - v_calm
            or (t.watched, t.whole) not in (select p.path, p.whole from taskq.watched_paths() p));

    update taskq.known_trouble t
       set gone_at = null,
           holds_since = h.since,
           seen_at = v_now,
           since = least(t.since, f.since),
           lasted = t.lasted or h.since + make_interval(secs => f.after_s) <= v_now,
           word = f.word,
           after_s = f.after_s,
           listed = f.listed,
           path = f.path,
           site = f.site,
           host = f.host,
           cost = f.cost,
           tasks = f.tasks,
           lost = f.lost,
           blocks = f.blocks,
           maintenance_id = f.maintenance,
           figures = f.figures,
           acknowledged_at = case when not w.worse then t.acknowledged_at end,
           snoozed_until = case when not w.worse then t.snoozed_until end,
           returned_at = case when w.worse then v_now else t.returned_at end
      from jsonb_to_recordset(v_true) as f (
               watched text, whole boolean, code text, subject text, word text, after_s double precision,
               listed boolean, path text, site text, host text, since timestamptz, cost double precision,
               tasks bigint, lost bigint, blocks boolean, maintenance bigint, figures jsonb)
     cross join lateral (
         select o.trouble_id, case when o.gone_at is null then o.holds_since else v_now end as since,
                (o.acknowledged_at is not null or o.snoozed_until > v_now)
                and case when o.known_cost is not null and f.cost is not null
                         then f.cost >= greatest(2 * o.known_cost, o.known_cost + 1)
                         else f.lost >= greatest(2 * o.known_lost, o.known_lost + 1) end as worse
           from taskq.known_trouble o
          where (o.watched, o.whole, o.code, o.subject) = (f.watched, f.whole, f.code, f.subject)
            and not o.closed
     ) h
     cross join lateral (select h.worse) w
     where t.trouble_id = h.trouble_id;

    insert into taskq.known_trouble (
               trouble_id, watched, whole, code, subject, word, after_s, listed, path, site, host, since, noted_at,
               holds_since, seen_at, lasted, cost, tasks, lost, blocks, maintenance_id, figures)
    select v_last + row_number() over (order by f.cost desc nulls last, f.code, f.subject, f.watched, f.whole),
           f.watched, f.whole, f.code, f.subject, f.word, f.after_s, f.listed, f.path, f.site, f.host,
           least(f.since, v_now), v_now, v_now, v_now, f.after_s = 0, f.cost, f.tasks, f.lost, f.blocks,
           f.maintenance, f.figures
      from jsonb_to_recordset(v_true) as f (
               watched text, whole boolean, code text, subject text, word text, after_s double precision,
               listed boolean, path text, site text, host text, since timestamptz, cost double precision,
               tasks bigint, lost bigint, blocks boolean, maintenance bigint, figures jsonb)
     where (f.watched, f.whole, f.code, f.subject) not in (
               select o.watched, o.whole, o.code, o.subject from taskq.known_trouble o where not o.closed);
    get diagnostics v_new = row_count;
    update taskq.notify_watch w set troubles = v_last + v_new where w.only_one and v_new > 0;

    insert into taskq.watch as w (path, whole, looked_at)
    select l.path, l.whole, v_now
      from jsonb_to_recordset(p_looked) as l (path text, whole boolean)
        on conflict (path, whole) do update
       set looked_at = excluded.looked_at;
    delete from taskq.watch w
     where (w.path, w.whole) not in (select p.path, p.whole from taskq.watched_paths() p);

    -- Events, also again of what has become worse, and after a snooze.
    delete from taskq.notify_noted n
     using taskq.known_trouble t
     where t.trouble_id = n.trouble_id
       and t.returned_at = v_now;
    with rule as materialized (
        select r.name, r.path, r.events, r.after_s
          from taskq.notify_rule r
         where (select count(*)
                  from taskq.notify_event e
                 where e.rule = r.name
                   and e.status = 'waiting') < v_waiting
    ), due as materialized (
        select r.name, t.trouble_id, t.code, t.subject, t.figures, t.since, t.cost
          from taskq.known_trouble t
          join rule r on r.path = t.watched and t.word = any (r.events)
         where not t.closed
           and t.whole
           and t.seen_at = v_now
           and t.acknowledged_at is null
           and t.maintenance_id is null
           and (t.snoozed_until > v_now) is not true
           and t.holds_since + make_interval(secs => coalesce(r.after_s, t.after_s)) <= v_now
           and not exists (
               select from taskq.notify_noted n where n.rule = r.name and n.trouble_id = t.trouble_id)
    ), noted as (
        insert into taskq.notify_noted (rule, trouble_id)
        select d.name, d.trouble_id from due d
    )
    insert into taskq.notify_event (event_id, rule, event, subject, trouble_id, noted_at, figures)
    select gen_random_uuid(), d.name, d.code, d.subject, d.trouble_id, v_now, d.figures from due d;
    get diagnostics v_noted = row_count;

    -- An event that no keeper could send for a day is of no use.
    update taskq.notify_event e
       set status = 'given up',
           ended_at = v_now
     where e.status = 'waiting'
       and e.noted_at < v_now - interval '1 day';

    -- What did not last is forgotten once it is gone, the rest after some days.
    delete from taskq.known_trouble t
     where t.gone_at is not null
       and (t.closed and t.gone_at < v_now - v_kept
            or not t.lasted and t.acknowledged_at is null and t.snoozed_until is null
               and not exists (select from taskq.notify_noted n where n.trouble_id = t.trouble_id));
    delete from taskq.known_trouble t
     where t.trouble_id in (
               select o.trouble_id from taskq.known_trouble o where o.closed order by o.gone_at desc offset v_most_over);
    return v_noted;
end
$$;
