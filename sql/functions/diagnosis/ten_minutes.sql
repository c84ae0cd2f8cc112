-- ten_minutes(at): when the ten minutes begin in which something was. Inlined into the calling statement.
create or replace function taskq.ten_minutes(p_at timestamptz)
returns timestamptz
language sql immutable parallel safe
as $$
    select date_bin('10 min', p_at, '2000-01-01T00:00:00Z')
$$;
