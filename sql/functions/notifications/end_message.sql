-- end_message(holder, rule, events, trouble, host): records the outcome of a message that the caller has
-- taken.
--
-- events: the ids of the events that it had. trouble: why it was not sent; null: it was. host: where from.
-- A rule rests for 30 s after a message, so that what happens meanwhile is one message; after one that failed it
-- waits twice as long as the last time, from 30 s to an hour. With the twelfth failure, five hours later, its
-- events are given up; the rule continues with later ones. The rule's last 100 events that have ended stay.
-- Result: whether this was the last try: the events were given up.
--
-- Idempotent. A caller that has lost the message to another sender may report that it was sent, not that it
-- failed.
--
-- Locks: the rule's row. Index: notify_rule_pkey, notify_event_pkey, notify_event_rule.
-- @roles operator
-- @gateway no
-- @act no: keepers send
create or replace function taskq.end_message(
    p_holder uuid,
    p_rule text,
    p_events uuid[],
    p_trouble text,
    p_host text
)
returns boolean
language plpgsql
as $$
declare
    v_tries constant integer := 12;
    v_now constant timestamptz := clock_timestamp();
    v_rule record;
    v_last boolean;
begin
    select r.holder, r.attempts + 1 as attempts into v_rule
      from taskq.notify_rule r
     where r.name = p_rule
       for no key update;
    if not found or p_trouble is not null and v_rule.holder is distinct from p_holder then
        return false;
    end if;
    v_last := p_trouble is not null and v_rule.attempts >= v_tries;
    update taskq.notify_rule r
       set holder = null,
           held_until = null,
           attempts = case when p_trouble is null or v_last then 0 else v_rule.attempts end,
           trouble = left(p_trouble, 500),
           retry_at = v_now + case
               when p_trouble is null or v_last then interval '30 s'
               else least(interval '1 h', interval '30 s' * 2.0 ^ (v_rule.attempts - 1)) end,
           sent_at = case when p_trouble is null then v_now else r.sent_at end,
           sent_from = case when p_trouble is null then left(p_host, 200) else r.sent_from end
     where r.name = p_rule;
    if p_trouble is null or v_last then
        update taskq.notify_event e
           set status = case when v_last then 'given up' else 'sent' end,
               ended_at = v_now
         where e.event_id = any (p_events)
           and e.rule = p_rule
           and e.status = 'waiting';
        delete from taskq.notify_event e
         using (
             select o.event_id
               from taskq.notify_event o
              where o.rule = p_rule
                and o.status <> 'waiting'
              order by o.noted_at desc
             offset 100
         ) old
         where e.event_id = old.event_id;
    end if;
    return v_last;
end
$$;
