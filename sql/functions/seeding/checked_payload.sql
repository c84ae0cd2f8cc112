-- checked_payload(payload): the payload of a task as jsonb, after a check of its text. A part of
-- seed_tasks().
--
-- Error TQ400: it has more than 64 KiB, is nested more than 64 deep, or has a number that is too long, see
--     json_fault().
create or replace function taskq.checked_payload(p_payload json)
returns jsonb
language plpgsql immutable parallel safe
as $$
declare
    v_fault constant text := taskq.json_fault(p_payload::text, 65536, 64);
begin
    if v_fault is not null then
        raise exception 'a payload %', v_fault using errcode = 'TQ400';
    end if;
    return p_payload::jsonb;
end
$$;
