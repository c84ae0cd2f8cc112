-- forget_refusals(campaign): removes the refusals of a campaign that was changed or opened again. From now on
-- refusals of tasks that were claimed before are not noted, see note_refusals(), and earlier failures do not count,
-- see attempt_sample(). A part of change_campaign(), set_status(), add_input() and remove_input(); not for clients.
--
-- forgotten: whether there were refusals. Locks: their rows. Index: refusal_pkey, refused_pkey.
create or replace function taskq.forget_refusals(p_campaign bigint, out forgotten boolean)
language plpgsql
as $$
begin
    delete from taskq.refusal r where r.campaign_id = p_campaign;
    forgotten := found;
    insert into taskq.refused as r (campaign_id, since)
    values (p_campaign, clock_timestamp())
        on conflict (campaign_id) do update
       set done = null,
           since = excluded.since;
end
$$;
