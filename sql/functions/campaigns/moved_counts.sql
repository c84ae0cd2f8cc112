-- moved_counts(): what campaigns have moved that is not in their counters yet, a row for each campaign. With `counter`,
-- or `subtotal` for those below, in one statement, they are exact; see unfolded(). Index: delta_xid.
--
-- Inlined into the calling statement; see subtree().
create or replace function taskq.moved_counts()
returns table (
    campaign_id bigint,
    waiting bigint,
    delayed bigint,
    working bigint,
    done bigint,
    failed bigint,
    cancelled bigint,
    failures bigint,
    losses bigint,
    children bigint
)
language sql stable
as $$
    select d.campaign_id,
           taskq.total(d.waiting), taskq.total(d.delayed), taskq.total(d.working), taskq.total(d.done),
           taskq.total(d.failed), taskq.total(d.cancelled), taskq.total(d.failures), taskq.total(d.losses), taskq.total(d.children)
      from taskq.unfolded() d
     group by d.campaign_id
$$;
