-- subtotal_of(campaign): the row of a campaign's subtotal, without unfolded deltas, by one look-up for each; see
-- session_of(). Index: subtotal_pkey.
create or replace function taskq.subtotal_of(p_campaign bigint)
returns setof taskq.subtotal
language sql stable
as $$
    select s.* from taskq.subtotal s where s.campaign_id = p_campaign offset 0
$$;
