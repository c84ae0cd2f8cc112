-- add_in_limit(campaign, name, starts): counts starts towards a limit, or fewer. A part of note_in_limits() and
-- freed_in_limit(), under the lock of the limit; not for clients. Index: limit_total_pkey.
create or replace function taskq.add_in_limit(p_campaign bigint, p_name text, p_starts bigint)
returns void
language plpgsql
as $$
begin
    update taskq.limit_total t
       set number = t.number + 1,
           starts = t.starts + p_starts
     where p_starts <> 0
       and t.ctid = (
           select n.ctid
             from taskq.limit_total n
            where n.campaign_id = p_campaign
              and n.name = p_name
            order by n.number desc
            limit 1);
    if not found and p_starts <> 0 then
        insert into taskq.limit_total (campaign_id, name, number, starts)
        values (p_campaign, p_name, 1, p_starts);
    end if;
end
$$;
