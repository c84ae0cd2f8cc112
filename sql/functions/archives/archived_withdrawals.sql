-- archived_withdrawals(campaign, after, upto): which results of a range of tasks were withdrawn, and when; see
-- archived_tasks(). Index: withdrawal_pkey.
-- @roles operator
-- @gateway no
-- @act no: it reads
-- @plan generic by-key
create or replace function taskq.archived_withdrawals(p_campaign bigint, p_after bigint, p_upto bigint)
returns table (
    task_id bigint,
    attempt integer,
    withdrawn_at timestamptz
)
language plpgsql stable
as $$
begin
    return query
        select w.task_id, w.attempt, w.withdrawn_at
          from taskq.withdrawal w
         where w.campaign_id = p_campaign
           and w.task_id > p_after
           and w.task_id <= p_upto
         order by w.campaign_id, w.task_id, w.attempt;
end
$$;
