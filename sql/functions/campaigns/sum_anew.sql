-- sum_anew(campaign): sets the subtotal of a campaign to the sum of the counters below it. A part of
-- remove_campaign(), which holds the row of `fold`; not for clients.
--
-- Reads the counters of all campaigns below. Index: campaign_pkey, campaign_path_key, counter_pkey, subtotal_pkey.
create or replace function taskq.sum_anew(p_campaign bigint)
returns void
language plpgsql
as $$
begin
    update taskq.subtotal s
       set waiting = b.waiting, delayed = b.delayed, working = b.working, done = b.done, failed = b.failed,
           cancelled = b.cancelled, failures = b.failures, losses = b.losses
      from taskq.sum_below(p_campaign) b
     where s.campaign_id = p_campaign;
end
$$;
