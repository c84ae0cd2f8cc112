-- reports_recipes(offers): whether an agent with these tags reports by which recipe its attempts ran.
create or replace function taskq.reports_recipes(p_offers text[])
returns boolean
language sql immutable
as $$
    select taskq.offered('{protocol>=3}', p_offers)
$$;
