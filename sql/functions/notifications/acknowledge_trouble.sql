-- acknowledge_trouble(trouble, until_s, note, undo): says that somebody knows of a trouble: rules send no more messages
-- about it. It counts until the trouble is over, or becomes much worse, see note_look(). The same trouble, as it is seen
-- at campaigns below, is acknowledged too.
--
-- trouble: its id. until_s: only for so many seconds, a week at most; null: as above. A trouble that still holds then is
--     reported again. note: of at most 500 characters; null: none. undo: take both back instead.
-- Result: the campaign at which it was found, the code and the subject.
-- Error TQ400: not such a time or note. Error TQ404: no such trouble, or it is not for this token. Error TQ409: it is
--     over.
--
-- Locks: the rows of the troubles. Index: known_trouble_pkey, known_trouble_open.
-- @roles manager operator
-- @gateway manager
-- @repeat once
-- @act acknowledge
create or replace function taskq.acknowledge_trouble(
    p_trouble bigint,
    p_until_s double precision default null,
    p_note text default null,
    p_undo boolean default false,
    out watched text,
    out code text,
    out subject text
)
language plpgsql
as $$
declare
    v_now constant timestamptz := clock_timestamp();
    v_known record;
begin
    if (coalesce(p_until_s, 0) between 0 and 604800 and coalesce(length(p_note), 0) <= 500) is not true then
        raise exception 'a trouble is snoozed for a week at most, and a note has at most 500 characters'
            using errcode = 'TQ400';
    end if;
    select t.* into v_known
      from taskq.known_trouble t
     where t.trouble_id = p_trouble
       and t.listed
       and taskq.token_covers(t.watched)
       and (not t.whole or taskq.token_covers('/'))
       for no key update;
    if not found then
        raise exception 'no trouble %; `taskq troubles` shows all with their ids', p_trouble using errcode = 'TQ404';
    end if;
    if v_known.closed then
        raise exception 'the trouble % is over', p_trouble using errcode = 'TQ409';
    end if;
    watched := v_known.watched;
    code := v_known.code;
    subject := v_known.subject;
    update taskq.known_trouble t
       set acknowledged_at = case when not p_undo and p_until_s is null then v_now end,
           snoozed_until = case when not p_undo then v_now + make_interval(secs => p_until_s) end,
           by = case when not p_undo
                     then taskq.caller() end,
           note = case when not p_undo then p_note end,
           known_cost = t.cost,
           known_lost = t.lost
     where not t.closed
       and t.code = v_known.code
       and t.subject = v_known.subject
       and taskq.at_or_below(t.watched, v_known.watched);
    -- What waits is not sent; and what still holds after a snooze is new.
    delete from taskq.notify_event e
     using taskq.known_trouble t
     where t.trouble_id = e.trouble_id
       and e.status = 'waiting'
       and not p_undo
       and not t.closed
       and t.code = v_known.code
       and t.subject = v_known.subject
       and taskq.at_or_below(t.watched, v_known.watched);
    delete from taskq.notify_noted n
     using taskq.known_trouble t
     where t.trouble_id = n.trouble_id
       and p_until_s is not null
       and not p_undo
       and not t.closed
       and t.code = v_known.code
       and t.subject = v_known.subject
       and taskq.at_or_below(t.watched, v_known.watched);
    -- What only those see who may see the whole queue is noted where only they look.
    perform taskq.note_act(
        case when v_known.whole then '/' else watched end, 'acknowledge', array_remove(array[
            code, nullif(subject, watched),
            case when p_undo then 'taken back' when p_until_s is not null then 'for ' || round(p_until_s) || ' s' end,
            case when not p_undo then p_note end], null));
end
$$;
