-- believed(at, now): an instant that was noted, or null if it lies more than an hour in the future: then the clock
-- was wrong, and has been set back. For silence and terms that begin at this instant; not for clients.
create or replace function taskq.believed(p_at timestamptz, p_now timestamptz)
returns timestamptz
language sql stable
as $$
    select case when p_at < p_now + interval '1 hour' then p_at end
$$;
