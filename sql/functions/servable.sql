-- servable(path, lifetime_s): the open campaigns at and below a path that have waiting tasks.
--
-- lifetime_s: leave out campaigns whose time limit is longer; null: none.
-- Result: id, revision and number of waiting tasks, in no order. Error TQ404: no such campaign.
--
-- Reads no task; see counts().
create or replace function taskq.servable(p_path text, p_lifetime_s double precision)
returns table (campaign_id bigint, revision integer, waiting bigint)
language plpgsql stable
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    return query
        select n.campaign_id, c.revision, n.waiting
          from taskq.counts(p_path, null) n
          join taskq.campaign c on c.campaign_id = n.campaign_id
         where n.state = 'open'
           and n.waiting > 0
           and (p_lifetime_s is null or c.time_limit_s is null or c.time_limit_s <= p_lifetime_s);
end
$$;
