-- done_count(campaign): how many results a campaign has, without those below it. Exact within the snapshot;
-- see unfolded(). Index: counter_pkey, delta_xid.
-- @plan generic by-one-key
create or replace function taskq.done_count(p_campaign bigint)
returns bigint
language plpgsql stable
as $$
begin
    return coalesce((select n.done from taskq.counter n where n.campaign_id = p_campaign), 0)
         + coalesce((select sum(d.done) from taskq.unfolded() d where d.campaign_id = p_campaign), 0);
end
$$;
