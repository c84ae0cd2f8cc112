-- withdrawals_of(campaign, tasks): the withdrawn results of some tasks, in no order; see withdrawals().
--
-- It costs a look-up for each task if the campaign has withdrawn results at all. Plans: see tasks().
-- Index: withdrawal_pkey.
-- @roles reader
-- @standby yes
-- @gateway manager
-- @plan generic by-key
create or replace function taskq.withdrawals_of(p_campaign bigint, p_tasks bigint[])
returns table (task_id bigint, attempt integer)
language plpgsql stable
as $$
begin
    if not exists (select from taskq.withdrawal w where w.campaign_id = p_campaign) then
        return;
    end if;
    return query
        select w.task_id, w.attempt
          from unnest(p_tasks) as u (task_id)
         cross join lateral (
               select w.task_id, w.attempt
                 from taskq.withdrawal w
                where w.campaign_id = p_campaign
                  and w.task_id = u.task_id
               offset 0) w;
end
$$;
