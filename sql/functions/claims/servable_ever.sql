-- servable_ever(has_handler, paused_why, requires, offers): whether an agent with these tags can claim tasks
-- of a campaign, now or later, unless somebody changes it; offers null: do not check tags. Inlined into
-- the calling statement.
create or replace function taskq.servable_ever(
    p_has_handler boolean,
    p_paused_why text,
    p_requires text[],
    p_offers text[]
)
returns boolean
language sql immutable
as $$
    select p_has_handler
           and p_paused_why is null
           and (p_offers is null
                or cardinality(p_requires) = 0
                or taskq.offered(p_requires, p_offers))
$$;
