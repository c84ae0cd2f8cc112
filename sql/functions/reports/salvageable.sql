-- salvageable(campaign, task, lease): whether a success of an attempt that was given up as lost, or hedged,
-- would count now. A part of salvage() and beat(); not for clients.
--
-- Result: the number of the attempt. Null: the campaign rejects late results, or is archived; or no attempt was lost or hedged
--     under the lease, see is_given_up(); or the task is done, cancelled, or failed for another reason than a loss.
--
-- Index: campaign_pkey, attempt_pkey, task_pkey; see settle() for why nothing else can be used.
create or replace function taskq.salvageable(p_campaign bigint, p_task bigint, p_lease uuid)
returns integer
language plpgsql stable
as $$
begin
    if (select c.late_results from taskq.campaign c where c.campaign_id = p_campaign) = 'salvage'
       and taskq.campaign_state(p_campaign) <> 'archived'
    then
        return (
            select a.attempt
              from taskq.attempt a
              cross join lateral taskq.task_of(p_campaign, p_task) t
             where a.campaign_id = p_campaign
               and a.task_id = p_task
               and a.lease_id = p_lease
               and taskq.is_given_up(a.outcome, a.error_class)
               and (t.status in ('waiting', 'delayed', 'working')
                    or t.status = 'failed'
                    and exists (
                        select
                          from taskq.attempt l
                         where l.campaign_id = p_campaign
                           and l.task_id = p_task
                           and l.attempt = t.attempt
                           and l.outcome::text = 'lost'))
             order by a.attempt desc
             limit 1);
    end if;
    return null;
end
$$;
