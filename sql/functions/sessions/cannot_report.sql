-- cannot_report(said): whether an agent says in its heartbeats that its exchanges fail, that a result is not transferred,
-- or that reports are withheld. Its attempts may have ended long ago: nothing judges them by the time since their
-- claims, and nothing ends them for it. Inlined into the calling statement.
create or replace function taskq.cannot_report(p_said jsonb)
returns boolean
language sql immutable parallel safe
as $$
    select coalesce(p_said #> '{trouble,warnings}' ?| array['exchange', 'transfer', 'withheld'], false)
$$;
