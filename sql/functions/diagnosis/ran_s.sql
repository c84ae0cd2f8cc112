-- ran_s(phases, claimed_at, ended_at): the seconds that the payload of an attempt ran, as the agent measured them; else
-- those from claim to end. Where many tasks have one start, the agent gives each its share: from claim to end they wait
-- for each other. Inlined into the calling statement.
create or replace function taskq.ran_s(p_phases jsonb, p_claimed_at timestamptz, p_ended_at timestamptz)
returns double precision
language sql immutable parallel safe
as $$
    select case when jsonb_typeof(p_phases -> 'run_s') = 'number' then (p_phases ->> 'run_s')::double precision
                else extract(epoch from p_ended_at - p_claimed_at)::double precision end
$$;
