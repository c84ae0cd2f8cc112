-- note_recipe(before): records that handler, parameters or inputs of a campaign have changed, if they have. A part of
-- change_campaign(), add_input() and remove_input(), which hold the campaign's row; not for clients.
--
-- before: the row before the change. A campaign that had no handler, or no task yet, has nothing to tell apart: the
-- change belongs to its first recipe. A seeding changes the row too, so it comes before or after.
-- Content that the campaign has had before gets its old number. Index: recipe_pkey, campaign_pkey.
create or replace function taskq.note_recipe(p_before taskq.campaign)
returns void
language plpgsql
as $$
declare
    v_now constant taskq.campaign := (
        select c from taskq.campaign c where c.campaign_id = p_before.campaign_id);
    v_last integer;
    v_recipe integer;
begin
    if (v_now.handler - 'seal', v_now.params, v_now.inputs)
       is not distinct from (p_before.handler - 'seal', p_before.params, p_before.inputs)
    then
        return;
    end if;
    select max(r.change), max(r.recipe) + 1 into v_last, v_recipe
      from taskq.recipe r
     where r.campaign_id = p_before.campaign_id;
    if v_last is null then
        if p_before.handler is null or p_before.payload_bytes = 0 then
            return;
        end if;
        insert into taskq.recipe (campaign_id, change, recipe, changed_at, changed_by, handler, params, inputs)
        values (p_before.campaign_id, 1, 1, p_before.created_at, coalesce(p_before.owner, ''),
                p_before.handler - 'seal', p_before.params, p_before.inputs);
        v_last := 1;
        v_recipe := 2;
    end if;
    v_recipe := coalesce(
        (select min(r.recipe)
           from taskq.recipe r
          where r.campaign_id = p_before.campaign_id
            and (r.handler, r.params, r.inputs)
                is not distinct from (v_now.handler - 'seal', v_now.params, v_now.inputs)),
        v_recipe);
    insert into taskq.recipe (campaign_id, change, recipe, changed_at, changed_by, handler, params, inputs)
    values (p_before.campaign_id, v_last + 1, v_recipe, clock_timestamp(),
            taskq.caller(),
            v_now.handler - 'seal', v_now.params, v_now.inputs);
    update taskq.campaign c
       set recipe = nullif(v_recipe, 1)
     where c.campaign_id = p_before.campaign_id;
end
$$;
