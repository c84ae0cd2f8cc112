-- served_s(since, until): how many seconds the queue served between two instants, see note_stall(). Inlined into the
-- calling statement. Index: stall_pkey.
create or replace function taskq.served_s(p_since timestamptz, p_until timestamptz)
returns double precision
language sql stable
as $$
    select extract(epoch from p_until - p_since)::double precision - coalesce(
               (select sum(extract(epoch from least(s.until, p_until) - greatest(s.since, p_since)))
                  from taskq.stall s
                 where s.until > p_since
                   and s.since < p_until), 0)::double precision
$$;
