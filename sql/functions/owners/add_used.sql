-- add_used(sums): adds to the rows of `usage`. A part of add_usage(), thin_usage() and part_usage(); not for clients.
--
-- Locks: the rows that it changes, in the order of their key. Index: usage_pkey.
-- @plan by-one-key
create or replace function taskq.add_used(p_sums taskq.usage[])
returns void
language plpgsql
as $$
begin
    insert into taskq.usage as u (
           path, grain, since, campaign_id, owner, site, outcome, attempts, run_ms, core_ms, gpu_ms)
    select g.path, g.grain, g.since, g.campaign_id, g.owner, g.site, g.outcome, taskq.total(g.attempts),
           taskq.total(g.run_ms), taskq.total(g.core_ms), taskq.total(g.gpu_ms)
      from unnest(p_sums) as g
     group by 1, 2, 3, 4, 5, 6, 7
     order by 1, 2, 3, 4, 5, 6, 7
        on conflict (path, grain, since, campaign_id, owner, site, outcome) do update
       set attempts = u.attempts + excluded.attempts,
           run_ms = u.run_ms + excluded.run_ms,
           core_ms = u.core_ms + excluded.core_ms,
           gpu_ms = u.gpu_ms + excluded.gpu_ms;
end
$$;
