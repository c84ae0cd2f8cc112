-- unfinished_ids(path): where to look for campaigns at and below a path in which tasks may be unfinished.
--
-- Result: the ids of all campaigns, wherever they are, with unfinished tasks or with moves that are not folded; null:
-- the subtree has at most 1,000 campaigns, so it is read as a whole. Of very many campaigns most have ended, so
-- neither way costs more for each of them.
--
-- Index: campaign_path_key, counter_unfinished, delta_xid.
-- @plan generic by-key
create or replace function taskq.unfinished_ids(p_path text)
returns bigint[]
language plpgsql stable
as $$
declare
    v_many constant integer := 1000;
begin
    if p_path <> '/' and not exists (select from taskq.subtree(p_path) offset v_many) then
        return null;
    end if;
    return array(
        select n.campaign_id from taskq.counter n where n.unfinished
         union
        select d.campaign_id from taskq.unfolded() d);
end
$$;
