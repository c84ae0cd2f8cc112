-- sum_below(campaign): the sums of the counters of all campaigns below one, as its subtotal must have them. A part of
-- sum_anew() and of the audit.
--
-- Reads the counters of all these. Index: campaign_pkey, campaign_path_key, counter_pkey.
create or replace function taskq.sum_below(p_campaign bigint)
returns table (
    waiting bigint,
    delayed bigint,
    working bigint,
    done bigint,
    failed bigint,
    cancelled bigint,
    failures bigint,
    losses bigint
)
language plpgsql stable
as $$
begin
    return query
        select taskq.total(n.waiting), taskq.total(n.delayed), taskq.total(n.working), taskq.total(n.done),
               taskq.total(n.failed), taskq.total(n.cancelled), taskq.total(n.failures), taskq.total(n.losses)
          from taskq.campaign_of(p_campaign) t
         cross join lateral taskq.subtree(t.path) c
          join taskq.counter n on n.campaign_id = c.campaign_id
         where c.campaign_id <> p_campaign;
end
$$;
