-- test_notify_rule(name): sends a test event by a rule, with its waiting events, at once: also if a message
-- of the rule failed and would be tried again later.
--
-- Result: the event's id, by which its status can be asked for. Error TQ404: no such rule. Error TQ409: ten
-- tests wait already.
-- @roles operator
-- @gateway no
-- @act no: it sends a test, whose event has the login
create or replace function taskq.test_notify_rule(p_name text)
returns uuid
language plpgsql
as $$
declare
    v_most constant integer := 10;
    v_event constant uuid := gen_random_uuid();
    v_path text;
begin
    update taskq.notify_rule r
       set retry_at = null
     where r.name = p_name
 returning r.path into v_path;
    if not found then
        raise exception 'no notification rule %; `taskq notify list` shows what there is', p_name
            using errcode = 'TQ404';
    elsif (select count(*)
             from taskq.notify_event e
            where e.rule = p_name
              and e.event = 'test'
              and e.status = 'waiting') >= v_most then
        raise exception '% tests of the rule % wait already', v_most, p_name using errcode = 'TQ409';
    end if;
    insert into taskq.notify_event (event_id, rule, event, subject, noted_at, figures)
    values (v_event, p_name, 'test', v_path, clock_timestamp(),
            jsonb_build_object('login', session_user));
    return v_event;
end
$$;
