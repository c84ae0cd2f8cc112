-- remove_input(path, name): takes an input from a campaign; its content stays stored until
-- remove_unused_blobs() finds it.
--
-- Result: the campaign's revision. Error TQ404: no such campaign, or no such input. Error TQ409: see demand_not_archived().
--
-- Locks: the campaign's row, and its refusals. See drop_input(), and note_recipe().
-- @roles submitter
-- @gateway submitter
-- @repeat once
-- @act change
create or replace function taskq.remove_input(p_path text, p_name text)
returns integer
language plpgsql
as $$
declare
    v_before taskq.campaign;
    v_revision integer;
begin
    select c.* into v_before from taskq.campaign c where c.path = p_path for update;
    perform taskq.demand_not_archived(v_before.campaign_id);
    v_revision := taskq.drop_input(p_path, p_name);
    perform taskq.note_recipe(v_before);
    return v_revision;
end
$$;
