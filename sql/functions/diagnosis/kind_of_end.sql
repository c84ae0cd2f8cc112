-- kind_of_end(outcome, refused): how an attempt ended, for `end_sum`: see end_of(); refused, if its node cannot run such
-- tasks. Inlined into the calling statement.
create or replace function taskq.kind_of_end(p_outcome taskq.attempt_outcome, p_refused boolean)
returns text
language sql immutable parallel safe
as $$
    select case when p_refused and p_outcome = 'released' then 'refused' else taskq.end_of(p_outcome) end
$$;
