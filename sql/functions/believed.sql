-- believed(at, now): an instant that was noted, or null if it is more than an hour to come: the clock was wrong
-- then, and has been set back. For silence and terms that begin there; not for clients.
create or replace function taskq.believed(p_at timestamptz, p_now timestamptz)
returns timestamptz
language sql stable
as $$
    select case when p_at < p_now + interval '1 hour' then p_at end
$$;
