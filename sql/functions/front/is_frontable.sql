-- is_frontable(campaign): whether tasks of a campaign may be leased ahead: it is open with all above
-- it, has a handler, may use the front, and does not limit how many tasks run, in all or at a site: tasks in
-- a list would count. It has no batches: agents name their claims as a whole. A part of lease_ahead() and others; not for clients.
create or replace function taskq.is_frontable(p_campaign bigint)
returns boolean
language plpgsql stable
as $$
begin
    return exists (
        select from taskq.campaign c
         where c.campaign_id = p_campaign
           and c.front
           and c.handler is not null
           and c.handler -> 'batch' is null
           and c.max_running is null
           and not exists (
               select from taskq.campaign a
                where a.campaign_id = any (c.lineage)
                  and a.status <> 'open'));
end
$$;
