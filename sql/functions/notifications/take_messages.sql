-- take_messages(holder, host, reaches, most): the messages that a sender sends next. Called by every keeper
-- that sends, in each of its rounds; so the table of senders also shows who can send what.
--
-- holder: drawn by the calling process. host: where it runs, for people. reaches: what it can do, of mail,
--     webhook, webhook:NAME, command:NAME; 200 at most. most: messages, 100 at most.
-- Result: a row for each rule that has events, with its oldest 100: they go out as one message. It is the
-- caller's for a minute; then a message without its end_message() goes to the next sender that asks. So each
-- event is sent at least once, and under one id. attempts: how many have failed before.
--
-- Locks: the rules that are handed out, skipping locked ones. Index: notify_event_waiting; rules are few.
-- @roles operator
-- @gateway no
-- @act no: keepers send
create or replace function taskq.take_messages(
    p_holder uuid,
    p_host text,
    p_reaches text[],
    p_most integer
)
returns table (rule text, path text, target text, attempts integer, events jsonb)
language plpgsql
as $$
declare
    v_now constant timestamptz := clock_timestamp();
    v_term constant interval := '1 min';
begin
    delete from taskq.notify_sender s where s.until < v_now;
    insert into taskq.notify_sender as s (holder, host, reaches, until)
    select p_holder, left(p_host, 200), p_reaches[1:200], v_now + v_term
     where (select count(*) from taskq.notify_sender) < 100
        on conflict (holder) do update
       set reaches = excluded.reaches,
           until = excluded.until
     where s.until < excluded.until - v_term / 2
        or s.reaches <> excluded.reaches;

    return query
        with ready as materialized (
            select r.name
              from taskq.notify_rule r
             where r.reach = any (p_reaches[1:200])
               and (r.held_until < v_now) is not false
               and (r.retry_at <= v_now) is not false
               and exists (
                   select from taskq.notify_event e where e.rule = r.name and e.status = 'waiting')
             order by r.attempts, r.retry_at nulls first, r.name
             limit least(p_most, 100)
               for no key update skip locked
        ), held as (
            update taskq.notify_rule r
               set holder = p_holder,
                   held_until = v_now + v_term
              from ready
             where r.name = ready.name
         returning r.name, r.path, r.target, r.attempts
        )
        select h.name, h.path, h.target, h.attempts, (
                   select jsonb_agg(to_jsonb(o) order by o.noted_at, o.event, o.subject)
                     from (
                         select e.event_id, e.event, e.subject, e.trouble_id, e.noted_at, e.figures
                           from taskq.notify_event e
                          where e.rule = h.name
                            and e.status = 'waiting'
                          order by e.noted_at
                          limit 100
                     ) o)
          from held h
         order by h.name;
end
$$;
