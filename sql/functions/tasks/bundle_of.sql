-- bundle_of(campaign, task): the bundle that a task is in, if it is in one; see session_of(). Index: bundle_task.
--
-- Bundles of a campaign do not overlap, so only the nearest one that begins at or below a task may hold it. The
-- search looks at a range longer than any bundle, so it ends soon even if all rows there are dead.
create or replace function taskq.bundle_of(p_campaign bigint, p_task bigint)
returns setof taskq.bundle
language sql stable
as $$
    select b.*
      from (
          select b.*
            from taskq.bundle b
           where b.campaign_id = p_campaign
             and b.first_id <= p_task
             and b.first_id > p_task - 65536
           order by b.campaign_id desc, b.first_id desc
           limit 1
      ) b
     where p_task = any (b.tasks)
$$;
