-- archived_recipes(campaign): the recipes of an archived campaign, in the order of changes; see archived_tasks().
-- Index: recipe_pkey.
-- @roles operator
-- @gateway no
-- @act no: it reads
-- @plan generic by-key
create or replace function taskq.archived_recipes(p_campaign bigint)
returns table (
    change integer,
    recipe integer,
    changed_at timestamptz,
    changed_by text,
    handler text,
    params text,
    inputs text
)
language plpgsql stable
as $$
begin
    return query
        select r.change, r.recipe, r.changed_at, r.changed_by, r.handler::text, r.params::text, r.inputs::text
          from taskq.recipe r
         where r.campaign_id = p_campaign
         order by r.campaign_id, r.change;
end
$$;
