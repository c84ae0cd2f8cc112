-- owners(path): the owners of campaigns at and below a path, with what all of their campaigns have, and their quotas.
--
-- campaigns, waiting (with those that are delayed), working, bytes: see owned() and stored_bytes(). max_running,
--     max_waiting, max_bytes: null: any amount. is_full: see stop_full_owners().
-- For / also those who have a quota and no campaign.
-- Error TQ404: no such campaign.
--
-- Reads no task; it costs a look-up for each campaign of these owners.
create or replace function taskq.owners(p_path text)
returns table (
    owner text,
    campaigns bigint,
    waiting bigint,
    working bigint,
    bytes bigint,
    max_running integer,
    max_waiting bigint,
    max_bytes bigint,
    weight double precision,
    is_full boolean
)
language plpgsql stable
security definer
set search_path = pg_catalog, pg_temp
set jit = off
as $$
begin
    perform taskq.campaign_id(p_path);
    return query
        with known as materialized (
            select distinct c.owner
              from taskq.subtree(p_path) c
             where c.owner is not null
             union
            select q.owner
              from taskq.quota q
             where p_path = '/'
        )
        select k.owner,
               (select count(*) from taskq.campaign c where c.owner = k.owner),
               o.waiting + o.delayed, o.working, taskq.stored_bytes(k.owner), q.max_running,
               q.max_waiting, q.max_bytes, coalesce(q.weight, 1), coalesce(q.is_full, false)
          from known k
         cross join lateral taskq.owned(k.owner) o
          left join taskq.quota q on q.owner = k.owner;
end
$$;
