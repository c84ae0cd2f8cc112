-- withdrawals(campaign, task, attempt, limit): a page of withdrawn results, in the order of task ids and attempts. For
-- more about them see withdrawn_results().
--
-- task, attempt: the last ones of the page before, 0 at first. Plans: see tasks(). Index: withdrawal_pkey.
-- @roles reader
-- @standby yes
-- @gateway manager, paged
-- @plan generic by-key
create or replace function taskq.withdrawals(p_campaign bigint, p_task bigint, p_attempt integer, p_limit integer)
returns table (task_id bigint, attempt integer)
language plpgsql stable
as $$
begin
    return query
        select w.task_id, w.attempt
          from taskq.withdrawal w
         where w.campaign_id = p_campaign
           and (w.task_id, w.attempt) > (p_task, p_attempt)
         order by w.campaign_id, w.task_id, w.attempt
         limit p_limit;
end
$$;
