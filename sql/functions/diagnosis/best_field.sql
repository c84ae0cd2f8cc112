-- best_field(best): the field of results that ranks those of a campaign; null: none does, or one of payloads or phases.
-- Inlined into the calling statement.
create or replace function taskq.best_field(p_best text)
returns text
language sql immutable parallel safe
as $$
    select case when p_best ~ '^[a-z]+ result[.]' then substr(p_best, strpos(p_best, '.') + 1) end
$$;
