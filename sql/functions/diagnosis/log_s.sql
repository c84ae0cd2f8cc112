-- log_s(run_ms): the natural logarithm of the seconds that an attempt ran, at least 1 ms. Inlined into the calling
-- statement.
create or replace function taskq.log_s(p_run_ms bigint)
returns double precision
language sql immutable parallel safe
as $$
    select ln(greatest(p_run_ms, 1) / 1000.0::double precision)
$$;
