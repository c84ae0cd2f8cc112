-- begin_window(campaign): what failed so far no longer counts when it is judged whether a campaign pauses itself, see
-- pause_failing(). A part of change_status() and retry(); not for clients.
--
-- Locks: the row of pulse. Index: counter_pkey, pulse_pkey, delta_xid.
-- @plan by-key
create or replace function taskq.begin_window(p_campaign bigint)
returns void
language plpgsql
as $$
begin
    insert into taskq.pulse (campaign_id, since, done, failures)
    select n.campaign_id, clock_timestamp(), n.done + coalesce(sum(d.done), 0),
           n.first_failures + coalesce(sum(d.first_failures), 0)
      from taskq.counter n
      left join taskq.unfolded() d on d.campaign_id = n.campaign_id
     where n.campaign_id = p_campaign
     group by n.campaign_id
        on conflict (campaign_id) do update
       set since = excluded.since,
           done = excluded.done,
           failures = excluded.failures;
end
$$;
