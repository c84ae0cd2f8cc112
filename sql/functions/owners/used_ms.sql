-- used_ms(phases, claimed_at, ended_at): the milliseconds that an attempt counts for in `usage`: its run time, see
-- ran_s(), but never more than from claim to end, whatever its agent says. Inlined into the calling statement.
create or replace function taskq.used_ms(p_phases jsonb, p_claimed_at timestamptz, p_ended_at timestamptz)
returns bigint
language sql immutable parallel safe
as $$
    select round(1000 * greatest(0, least(
               taskq.ran_s(p_phases, p_claimed_at, p_ended_at), extract(epoch from p_ended_at - p_claimed_at))))::bigint
$$;
