-- drop_index(path, part, name): drops an index of results. The keeper removes its rows; until then it counts
-- towards the limit.
--
-- Result: whether there was one. Error TQ404: no such campaign. Index: result_index_field.
-- @roles submitter
-- @gateway submitter
-- @repeat once
-- @act no: an index changes only how fast results are read
create or replace function taskq.drop_index(p_path text, p_part text, p_name text)
returns boolean
language plpgsql
as $$
begin
    update taskq.result_index i
       set dropped = true
     where i.campaign_id = taskq.campaign_id(p_path)
       and i.part = p_part
       and i.name = p_name
       and not i.dropped;
    return found;
end
$$;
