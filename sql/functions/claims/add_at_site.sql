-- add_at_site(campaign, site, tasks): counts tasks of a campaign at a site, or fewer. A part of note_at_sites() and
-- freed_at_site(), under the lock of room_to_run(); not for clients. Index: site_total_pkey.
create or replace function taskq.add_at_site(p_campaign bigint, p_site text, p_tasks bigint)
returns void
language plpgsql
as $$
begin
    update taskq.site_total t
       set number = t.number + 1,
           tasks = t.tasks + p_tasks
     where p_tasks <> 0
       and t.ctid = (
           select n.ctid
             from taskq.site_total n
            where n.campaign_id = p_campaign
              and n.site = p_site
            order by n.number desc
            limit 1);
    if not found and p_tasks <> 0 then
        insert into taskq.site_total (campaign_id, site, number, tasks)
        values (p_campaign, p_site, 1, p_tasks);
    end if;
end
$$;
