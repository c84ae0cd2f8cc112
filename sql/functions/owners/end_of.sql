-- end_of(outcome): how an attempt ended, for `usage`: a result that was withdrawn later has been computed. Inlined into
-- the calling statement.
create or replace function taskq.end_of(p_outcome taskq.attempt_outcome)
returns text
language sql immutable parallel safe
as $$
    select case p_outcome when 'withdrawn' then 'done' else p_outcome::text end
$$;
