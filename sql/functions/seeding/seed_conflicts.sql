-- seed_conflicts(campaign, tasks): which of these tasks have a key that is stored with another payload.
--
-- tasks: as for submit(), all with known keys. Payloads are compared as jsonb: the order of names and the way
--     a number or a character is written make no difference.
-- A payload is known, and no conflict, if it is stored under its key, or under key#2, key#3 ... up to
-- the first of these that is free: so it is found again wherever seed_again() has put it.
--
-- Rows, in the order of places: place in the array, from 1; the task; stored: the payload under its
-- key; number: that of the key under which it can be kept, null where the array has the same key and
-- payload at an earlier place.
--
-- Index: spec_key_key, key by key as in seed_known(). No other join may be a nested loop: the number of tasks
-- is not known beforehand.
-- @plan generic by-scan
create or replace function taskq.seed_conflicts(p_campaign bigint, p_tasks jsonb)
returns table (
    place bigint, key text, payload jsonb, priority smallint, stored jsonb, number bigint)
language plpgsql stable
as $$
begin
    return query
        with recursive clash as materialized (
            select t.place, t.key, t.payload, t.priority, s.payload as stored
              from rows from (
                       jsonb_to_recordset(p_tasks) as (key text, payload jsonb, priority smallint)
                   ) with ordinality as t (key, payload, priority, place)
             cross join lateral (
                 select s.payload
                   from taskq.spec s
                  where s.campaign_id = p_campaign
                    and s.key = t.key
                 offset 0
             ) s
             where s.payload <> t.payload
        ), numbered as (
            -- Under key#2, key#3 ...; the last row of a key has no payload: its number is free.
            select c.key, 2::bigint as number, s.payload
              from (select distinct c.key from clash c) c
              left join lateral (
                  select s.payload
                    from taskq.spec s
                   where s.campaign_id = p_campaign
                     and s.key = c.key || '#2'
                  offset 0
              ) s on true
            union all
            select n.key, n.number + 1, s.payload
              from numbered n
              left join lateral (
                  select s.payload
                    from taskq.spec s
                   where s.campaign_id = p_campaign
                     and s.key = n.key || '#' || (n.number + 1)
                  offset 0
              ) s on true
             where n.payload is not null
        ), fresh as (
            select c.*,
                   f.number as free,
                   row_number() over (partition by c.key, c.payload order by c.place) = 1 as first
              from clash c
              join numbered f on f.key = c.key and f.payload is null
             where not exists (
                       select from numbered n where n.key = c.key and n.payload = c.payload)
        )
        select f.place, f.key, f.payload, f.priority, f.stored,
               case when f.first
                    then f.free - 1
                         + count(*) filter (where f.first) over (partition by f.key order by f.place)
               end
          from fresh f
         order by f.place;
end
$$;
