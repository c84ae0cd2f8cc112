-- is_given_up(outcome, error_class): whether the queue has ended an attempt without its agent: it was lost or hedged, or
-- it waited in a batch whose agent was lost, see give_back(). A success of it may still count, see salvageable().
-- Inlined into the calling statement.
create or replace function taskq.is_given_up(p_outcome taskq.attempt_outcome, p_error_class text)
returns boolean
language sql stable parallel safe
as $$
    -- As text, so that the index of unsuccessful attempts does not answer it.
    select p_outcome::text in ('lost', 'hedged') or p_outcome::text = 'released' and p_error_class = 'not-begun'
$$;
