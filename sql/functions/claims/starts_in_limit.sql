-- starts_in_limit(campaign, name): how many starts count towards a limit. A part of limit_room() and others; not for
-- clients.
--
-- campaign: 0: name is that of a limit; else name is a site, and each task counts.
--
-- A session counts for the tasks that it holds, and for no more than its slots, since it starts no more at a time: so
-- a batch is one start, and so are tasks claimed ahead. Tasks that have ended count until a claim or the keeper
-- finds that, see limit_room().
--
-- Index: limit_total_pkey.
create or replace function taskq.starts_in_limit(p_campaign bigint, p_name text)
returns bigint
language plpgsql stable
as $$
begin
    return coalesce((
        select t.starts
          from taskq.limit_total t
         where t.campaign_id = p_campaign
           and t.name = p_name
         order by t.number desc
         limit 1), 0);
end
$$;
