-- status_after(campaign, wanted): the status of a task that goes back: the wanted one, or
-- cancelled where the campaign or one above it is, or is archived.
create or replace function taskq.status_after(p_campaign bigint, p_wanted taskq.task_status)
returns taskq.task_status
language plpgsql stable
as $$
begin
    if exists (
        select from taskq.campaign c
          join taskq.campaign a on a.campaign_id = any (c.lineage)
         where c.campaign_id = p_campaign
           and a.status >= 'cancelled'
    ) then
        return 'cancelled';
    end if;
    return p_wanted;
end
$$;
