-- position_hint(campaign): the connection's hint for a campaign, see hint(); null: it has none. Inlined into the
-- calling statement.
create or replace function taskq.position_hint(p_campaign bigint)
returns bigint[]
language sql stable
as $$
    select nullif(current_setting('taskq.position_' || p_campaign, true), '')::bigint[]
$$;
