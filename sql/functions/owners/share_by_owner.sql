-- share_by_owner(by_owner): whether running tasks are shared out between owners first, by their weights, then
-- between the campaigns of each; or between all campaigns alike. See servable(). Result: whether that changed.
-- @roles operator
-- @gateway no
-- @act quota
create or replace function taskq.share_by_owner(p_by_owner boolean)
returns boolean
language plpgsql
as $$
begin
    update taskq.sharing h set by_owner = p_by_owner where h.by_owner <> p_by_owner;
    if found then
        perform taskq.note_act(
            '/', 'quota', array[case when p_by_owner then 'shared out by owner' else 'shared out by campaign' end]);
        return true;
    end if;
    return false;
end
$$;
