-- index_results(path, part, name): begins an index of a campaign's results, without those below it; nothing
-- if there is one. fill_index(), and the keeper, take the results in.
--
-- part: result, payload or phases; name: see value_at(). Result: whether it is new.
-- Error TQ404: no such campaign. Error TQ400: no such part, no name, or a long one. Error TQ409: the database
--     has 16 indexes, the most.
--
-- Locks: the table of indexes, for a moment, against others of this. Index: result_index_field.
-- @roles submitter
-- @gateway submitter
-- @repeat safe
-- @act no: an index changes only how fast results are read
create or replace function taskq.index_results(p_path text, p_part text, p_name text)
returns boolean
language plpgsql
as $$
declare
    v_most constant integer := 16;
    v_id constant bigint := taskq.campaign_id(p_path);
begin
    if coalesce(p_part, '') not in ('result', 'payload', 'phases') or coalesce(length(p_name), 0) not between 1 and 255
    then
        raise exception 'an index needs a number of a result, such as result.score, with a name of at most 255 characters'
            using errcode = 'TQ400';
    end if;
    lock table taskq.result_index in share row exclusive mode;
    if exists (
        select from taskq.result_index i
         where i.campaign_id = v_id and i.part = p_part and i.name = p_name and not i.dropped)
    then
        return false;
    end if;
    if (select count(*) from taskq.result_index) >= v_most then
        raise exception 'there are % indexes of results, the most that a database may have: drop one', v_most
            using errcode = 'TQ409';
    end if;
    insert into taskq.result_index (campaign_id, part, name) values (v_id, p_part, p_name);
    return true;
end
$$;
