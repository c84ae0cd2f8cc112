-- stone_of(campaign): the campaign with which a campaign is being removed: itself, or the nearest above for which
-- begin_removal() was called; if there is none, the removal begins with itself. A part of functions that remove; not for
-- clients.
--
-- Index: campaign_pkey, stone_unfinished.
create or replace function taskq.stone_of(p_campaign bigint)
returns bigint
language plpgsql
as $$
declare
    v_stone bigint;
begin
    select s.campaign_id into v_stone
      from taskq.campaign c
     cross join lateral unnest(c.lineage) with ordinality as a (campaign_id, depth)
      join taskq.stone s on s.campaign_id = a.campaign_id and s.removed_at is null
     where c.campaign_id = p_campaign
     order by a.depth desc
     limit 1;
    if not found then
        perform taskq.begin_removal(c.path) from taskq.campaign c where c.campaign_id = p_campaign;
        v_stone := p_campaign;
    end if;
    return v_stone;
end
$$;
