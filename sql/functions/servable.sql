-- servable(path, lifetime_s): the campaigns at and below a path that agents can claim in: open, with a
-- handler, with waiting tasks.
--
-- lifetime_s: leave out campaigns whose time limit is longer; null: none.
-- Result: their ids, in no order. Error TQ404: no such campaign.
--
-- Reads no task; see counts().
create or replace function taskq.servable(p_path text, p_lifetime_s double precision)
returns table (campaign_id bigint)
language plpgsql stable
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    return query
        select n.campaign_id
          from taskq.counts(p_path, null) n
          join taskq.campaign c on c.campaign_id = n.campaign_id
         where n.state = 'open'
           and n.waiting > 0
           and c.handler is not null
           and (p_lifetime_s is null or c.time_limit_s is null or c.time_limit_s <= p_lifetime_s);
end
$$;
