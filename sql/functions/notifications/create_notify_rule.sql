-- create_notify_rule(name, path, events, target, after_s): stores a notification rule: keepers send what
-- note_events() finds, see take_messages().
--
-- name: letters, digits and hyphens in lower case, 40 at most. path: the campaign that is watched, with all
--     below it. events: of finished, paused, no-agents, failing, slow, trouble, disk. target: mail:ADDRESS,
--     webhook:https://..., webhook:NAME or command:NAME; keepers check it again, and decide what they send.
-- after_s: how long a condition must hold before a message is sent, 30 days at most; null: as note_events()
--     says.
-- Error TQ400: not such a value. Error TQ404: no such campaign. Error TQ409: there is a rule of this name, or
--     there are 100.
-- @roles operator
-- @gateway no
-- @act notify
create or replace function taskq.create_notify_rule(
    p_name text,
    p_path text,
    p_events text[],
    p_target text,
    p_after_s double precision default null
)
returns void
language plpgsql
as $$
declare
    v_most constant integer := 100;
begin
    perform taskq.campaign_id(p_path);
    if (select count(*) from taskq.notify_rule) >= v_most then
        raise exception 'there are % notification rules; remove some', v_most using errcode = 'TQ409';
    end if;
    insert into taskq.notify_rule (name, path, events, target, after_s, login)
    values (p_name, p_path, p_events, p_target, p_after_s, session_user);
    -- Without the address: that of a webhook may be a secret.
    perform taskq.note_act(p_path, 'notify', array[p_name, split_part(p_target, ':', 1)] || p_events);
exception
    when unique_violation then
        raise exception 'there is a notification rule %; remove it first', p_name using errcode = 'TQ409';
    when check_violation or not_null_violation then
        raise exception 'a notification rule has a name (letters, digits and hyphens in lower case, 40 at'
                        ' most), events (finished, paused, no-agents, failing, slow, trouble, disk), a target of at'
                        ' most 1,000 characters (mail:, webhook:, command:) and a time of 30 days at most: %', p_name
            using errcode = 'TQ400';
end
$$;
