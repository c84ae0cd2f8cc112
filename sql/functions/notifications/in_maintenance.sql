-- in_maintenance(path, site, host): whether a maintenance window of this host or site is on for a campaign. One of a
-- whole campaign does not count: what fails there fails for all.
create or replace function taskq.in_maintenance(p_path text, p_site text, p_host text)
returns boolean
language sql stable
as $$
    select exists (
        select from taskq.maintenance m
         where m.begins <= clock_timestamp()
           and m.ends > clock_timestamp()
           and taskq.at_or_below(p_path, m.path)
           and (p_host = any (m.hosts) or p_site = any (m.sites)))
$$;
