-- share_of(said, campaign, task): what a task has of the node where it runs, as the last heartbeat of its agent said:
-- devices and resources, see shares_in(); null: nothing that is counted, or it began with others and is not the first
-- of them. A part of tasks() and find_tasks(); not for clients.
create or replace function taskq.share_of(p_said jsonb, p_campaign bigint, p_task bigint)
returns jsonb
language plpgsql stable
as $$
begin
    -- Few agents have something that is counted.
    if p_said ? 'shares' then
        return (
            select i.has
              from taskq.shares_in(p_said) i
             where i.campaign_id = p_campaign
               and i.task_id = p_task
             limit 1);
    end if;
    return null;
end
$$;
