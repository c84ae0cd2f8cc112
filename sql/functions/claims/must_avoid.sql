-- must_avoid(avoids, due_at, failures, max_attempts, serving, now): whether a task must not yet return to a host
-- that it avoids, see pick_again(). A part of it; not for clients.
--
-- serving: enough of the hosts that serve the campaign. Inlined into the calling statement.
create or replace function taskq.must_avoid(
    p_avoids integer[],
    p_due_at timestamptz,
    p_failures smallint,
    p_max_attempts integer,
    p_serving integer[],
    p_now timestamptz
)
returns boolean
language sql stable
as $$
    select coalesce(
               p_now < p_due_at + case when p_failures > 0 and p_failures + 1 >= p_max_attempts
                                       then interval '1 day' else interval '2 min' end, false)
           and not p_serving <@ p_avoids
$$;
