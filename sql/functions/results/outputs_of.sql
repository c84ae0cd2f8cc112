-- outputs_of(campaign, tasks): the archives of output files of the accepted attempts of some tasks, in the
-- given order; no row for a task without one.
--
-- digest, size: of the blob. Index: output_pkey, attempt_pkey.
-- @roles reader
-- @standby yes
-- @gateway manager
-- @plan generic by-key
create or replace function taskq.outputs_of(p_campaign bigint, p_tasks bigint[])
returns table (task_id bigint, digest text, size bigint)
language plpgsql stable
as $$
begin
    return query
        select o.task_id, o.digest, o.size
          from unnest(p_tasks) with ordinality as k (task_id, ord)
         cross join lateral (
             select o.task_id, o.lease_id, o.digest, o.size
               from taskq.output o
              where o.campaign_id = p_campaign
                and o.task_id = k.task_id
             offset 0
         ) o
         where exists (
             select
               from taskq.attempt a
              where a.campaign_id = p_campaign
                and a.task_id = k.task_id
                and a.lease_id = o.lease_id
                and a.outcome::text = 'done'
             offset 0)
         order by k.ord;
end
$$;
