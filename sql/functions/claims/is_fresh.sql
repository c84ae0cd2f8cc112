-- is_fresh(hint): whether a hint, see hint(), may be used: it expires within the 5 s that it may last; null: there is
-- none. If the clock was set back, a hint that seems to last longer is not used. Inlined into the calling statement.
create or replace function taskq.is_fresh(p_hint bigint[])
returns boolean
language sql
as $$
    select abs(p_hint[taskq.hint('until')] - date_part('epoch', clock_timestamp()) * 1000000 - 2500000) <= 2500000
$$;
