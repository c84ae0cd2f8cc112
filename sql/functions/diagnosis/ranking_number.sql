-- ranking_number(outcome, result, field): the number by which a result is ranked, as `end_sum` adds it up; null: there is
-- none, or its square is no number. Inlined into the calling statement.
create or replace function taskq.ranking_number(p_outcome taskq.attempt_outcome, p_result jsonb, p_field text)
returns double precision
language sql immutable parallel safe
as $$
    select case when p_outcome in ('done', 'withdrawn') and p_field is not null
                 and pg_column_size(p_result) <= 8192
                 and abs(taskq.number_at(p_result, p_field)) < 1e100
                then case when abs(taskq.number_at(p_result, p_field)) > 1e-100
                          then taskq.number_at(p_result, p_field)::double precision else 0 end end
$$;
