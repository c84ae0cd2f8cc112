-- forget_refusals(campaign): removes the refusals of a campaign that was changed or opened again. A part
-- of change_campaign() and set_status(); not for clients.
--
-- forgotten: whether there were refusals. Locks: their rows. Index: refusal_pkey, refused_pkey.
create or replace function taskq.forget_refusals(p_campaign bigint, out forgotten boolean)
language plpgsql
as $$
begin
    delete from taskq.refusal r where r.campaign_id = p_campaign;
    forgotten := found;
    update taskq.refused r set done = null where r.campaign_id = p_campaign;
end
$$;
