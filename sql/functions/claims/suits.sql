-- suits(time_limit_s, requires, lifetime_s, offers): whether an agent with this remaining lifetime (null:
-- unlimited) and these tags can work for a campaign with this time limit (null: none) and these
-- requirements; see offered(). Inlined into the calling statement.
create or replace function taskq.suits(
    p_time_limit_s double precision,
    p_requires text[],
    p_lifetime_s double precision,
    p_offers text[]
)
returns boolean
language sql immutable
as $$
    select (p_time_limit_s <= p_lifetime_s) is not false
           and (cardinality(p_requires) = 0 or taskq.offered(p_requires, p_offers))
$$;
