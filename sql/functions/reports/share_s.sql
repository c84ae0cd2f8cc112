-- share_s(held, slots, claimed_at, ended_at): the phases of an attempt whose agent says nothing of it, and that ended
-- together with others of the session: if they were more than its slots, most of them waited, and each counts for an
-- equal share. Null: it counts from claim to end. A part of give_back() and cancel(); inlined into the calling statement.
create or replace function taskq.share_s(
    p_held bigint, p_slots integer, p_claimed_at timestamptz, p_ended_at timestamptz)
returns jsonb
language sql immutable parallel safe
as $$
    select case when p_held > p_slots
                then jsonb_build_object('run_s', round(extract(epoch from p_ended_at - p_claimed_at) * p_slots / p_held, 3))
           end
$$;
