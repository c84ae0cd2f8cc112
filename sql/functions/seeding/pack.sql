-- pack(campaign, above, upto, apart, parts, priorities, status): makes tasks of specs that are not tasks yet.
-- A part of seed_end() and unspan(); not for clients.
--
-- above, upto: specs with ids above the first, and up to the second; null: to the last. apart: those that get
--     a row each. parts: into how many spans to divide neighbours, more if these would be too large.
--     priorities: one for each of `apart`, which is then in ascending order; null: those of their specs.
--     status: of the tasks; waiting or cancelled.
-- Result: how many tasks.
--
-- Neighbours of one priority become a span, see migrations/0002_tasks.sql: of at least two tasks, and of few
-- enough that many agents can claim at the same time, since a claim locks the span. Other tasks get a row each.
--
-- Locks: none. Index: spec_pkey.
create or replace function taskq.pack(
    p_campaign bigint, p_above bigint, p_upto bigint default null, p_apart bigint[] default '{}',
    p_parts integer default 32, p_priorities smallint[] default null,
    p_status taskq.task_status default 'waiting')
returns integer
language plpgsql
as $$
declare
    v_least constant integer := 2;
    v_most constant integer := 500;
    v_packed integer;
    v_ids bigint[];
    v_lowest smallint;
    v_highest smallint;
    v_size integer;
begin
    if p_apart = '{}' then
        select array_agg(s.task_id), min(s.priority), max(s.priority) into v_ids, v_lowest, v_highest
          from (
              select s.task_id, s.priority
                from taskq.spec s
               where s.campaign_id = p_campaign
                 and s.task_id > p_above
                 and s.task_id <= coalesce(p_upto, 9223372036854775807)
               order by s.campaign_id, s.task_id
          ) s;
        v_packed := coalesce(cardinality(v_ids), 0);
        -- All have one priority, as most chunks of seeding do: the same spans as below, in an eighth of the
        -- time.
        if v_packed >= v_least and v_lowest = v_highest then
            v_size := greatest(v_least, least(v_most, v_packed / p_parts));
            insert into taskq.span (campaign_id, first_id, next_id, last_id, priority, status)
            select p_campaign, v_ids[p.first], v_ids[p.first], v_ids[p.last], v_lowest, p_status
              from (
                  select g.first, case when g.first + 2 * v_size - 1 > v_packed then v_packed
                                       else g.first + v_size - 1 end as last
                    from generate_series(1, v_packed - v_size + 1, v_size) as g (first)
              ) p;
            return v_packed;
        end if;
    end if;
    with fresh as materialized (
        -- The difference is the same for a run of neighbours that are alike, and another for the next such run.
        select s.task_id, s.priority, s.apart,
               s.ord - row_number() over (partition by s.priority, s.apart order by s.task_id) as run
          from (
              select s.task_id, s.priority, s.task_id = any (p_apart) as apart,
                     row_number() over (order by s.task_id) as ord
                from taskq.spec s
               where s.campaign_id = p_campaign
                 and s.task_id > p_above
                 and s.task_id <= coalesce(p_upto, 9223372036854775807)
          ) s
    ), part as materialized (
        select r.*, r.length >= v_least and not r.apart as packed,
               -- What is left after the last whole part belongs to it.
               least((r.place - 1) / r.size, greatest(r.length / r.size, 1) - 1) as part
          from (
              select f.*, row_number() over (neighbours order by f.task_id) as place,
                     count(*) over neighbours as length,
                     greatest(v_least, least(v_most, count(*) over neighbours / p_parts)) as size
                from fresh f
              window neighbours as (partition by f.priority, f.apart, f.run)
          ) r
    ), spans as (
        insert into taskq.span (campaign_id, first_id, next_id, last_id, priority, status)
        select p_campaign, min(p.task_id), min(p.task_id), max(p.task_id), p.priority, p_status
          from part p
         where p.packed
         group by p.priority, p.run, p.part
         order by 2
    ), rows as (
        insert into taskq.task (campaign_id, task_id, status, priority)
        select p_campaign, p.task_id, p_status,
               case when p.apart
                    then coalesce(p_priorities[width_bucket(p.task_id, p_apart)], p.priority)
                    else p.priority end
          from part p
         where not p.packed
         order by p.task_id
            -- Only a damaged campaign has a task twice.
            on conflict (campaign_id, task_id) do nothing
    )
    select count(*) into v_packed from fresh;
    return v_packed;
end
$$;
