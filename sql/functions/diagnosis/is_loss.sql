-- is_loss(outcome, error_class): whether an attempt counts as a loss: its agent was lost, even if its success was
-- salvaged later. A salvaged success keeps the class of its loss, or `hedged` or `not-begun`; other successes have no
-- class. The view state says the same. Inlined into the calling statement.
create or replace function taskq.is_loss(p_outcome taskq.attempt_outcome, p_error_class text)
returns boolean
language sql immutable parallel safe
as $$
    select p_outcome = 'lost' or p_outcome in ('done', 'withdrawn') and p_error_class not in ('hedged', 'not-begun')
$$;
