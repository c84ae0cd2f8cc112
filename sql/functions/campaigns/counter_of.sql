-- counter_of(campaign): the row of a campaign's counter, without unfolded deltas, by one look-up for each; see
-- session_of(). Index: counter_pkey.
create or replace function taskq.counter_of(p_campaign bigint)
returns setof taskq.counter
language sql stable
as $$
    select n.* from taskq.counter n where n.campaign_id = p_campaign offset 0
$$;
