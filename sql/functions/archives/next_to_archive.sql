-- next_to_archive(holding): the next campaign that is to be archived before retain() removes it; it is the caller's for
-- ten minutes. With holding, that one is the caller's for another ten.
--
-- name: of its archive, the same whenever this state of it is archived. No row: there is none.
-- Locks: the row of `retention`. Index: retention_due, campaign_pkey.
-- @roles operator
-- @gateway no
-- @act no: it reads
create or replace function taskq.next_to_archive(p_holding bigint)
returns table (
    campaign_id bigint,
    path text,
    name text
)
language plpgsql
as $$
begin
    return query
        with due as (
            select r.campaign_id
              from taskq.retention r
             where r.due_at <= clock_timestamp()
               and r.archive_first
               and r.ended_at is not null
               and (r.campaign_id = p_holding
                    or p_holding is null
                   and coalesce(r.archiving_until, '-infinity') < clock_timestamp()
                   and not exists (
                       select from taskq.archive a where a.campaign_id = r.campaign_id and a.digest is not null))
             order by r.due_at
             limit 1
               for update skip locked
        ), held as (
            update taskq.retention r
               set archiving_until = clock_timestamp() + interval '10 minutes'
             where r.campaign_id in (select d.campaign_id from due d)
         returning r.campaign_id, r.ended_at
        )
        select h.campaign_id, c.path,
               left(replace(ltrim(c.path, '/'), '/', '~'), 120) || '-' || h.campaign_id
               || to_char(h.ended_at at time zone 'UTC', '-YYYYMMDD"T"HH24MISSUS')
          from held h
         cross join lateral taskq.campaign_of(h.campaign_id) c;
end
$$;
