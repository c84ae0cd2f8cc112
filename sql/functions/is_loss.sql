-- is_loss(outcome, error_class): whether an attempt counts as a loss: its agent was lost, even if the result was
-- salvaged later: only then has a success a class, that of its loss, or `hedged`. The same stands in the view state.
-- Inlined into the calling statement.
create or replace function taskq.is_loss(p_outcome taskq.attempt_outcome, p_error_class text)
returns boolean
language sql immutable
as $$
    select p_outcome = 'lost' or p_outcome in ('done', 'withdrawn') and p_error_class <> 'hedged'
$$;
