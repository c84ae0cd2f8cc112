-- recipes_since(campaign): since when it has had more than its first recipe; null: it never had. See ran_recipe().
--
-- Index: recipe_pkey.
create or replace function taskq.recipes_since(p_campaign bigint)
returns timestamptz
language sql stable
as $$
    select r.changed_at
      from taskq.recipe r
     where r.campaign_id = p_campaign
       and r.change = 2
$$;
