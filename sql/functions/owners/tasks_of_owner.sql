-- tasks_of_owner(owner): how many tasks of all campaigns of an owner are waiting, delayed and working. A part of
-- room_to_run(), seed_end() and others; not for clients.
--
-- Exact within the snapshot: counters plus deltas. It costs a look-up for each of the campaigns.
-- Index: campaign_owner, counter_pkey, delta_xid, campaign_pkey.
-- @plan generic by-key
create or replace function taskq.tasks_of_owner(
    p_owner text,
    out waiting bigint,
    out delayed bigint,
    out working bigint
)
language plpgsql stable
as $$
begin
    select taskq.total(p.waiting), taskq.total(p.delayed), taskq.total(p.working)
      into waiting, delayed, working
      from (
          select n.waiting, n.delayed, n.working
            from taskq.campaign c
           cross join lateral taskq.counter_of(c.campaign_id) n
           where c.owner = p_owner
           union all
          select d.waiting, d.delayed, d.working
            from (
                select d.campaign_id, taskq.total(d.waiting) as waiting,
                       taskq.total(d.delayed) as delayed, taskq.total(d.working) as working
                  from taskq.unfolded() d
                 group by d.campaign_id
            ) d
           cross join lateral taskq.campaign_of(d.campaign_id) c
           where c.owner = p_owner
      ) p;
end
$$;
