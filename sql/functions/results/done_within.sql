-- done_within(campaign, firsts, lasts, since, scan): which tasks with ids in some ranges have an accepted result.
--
-- firsts, lasts: the first and the last id of each range; ranges ascend and do not overlap. since: only
--     results of attempts that ended then or later; null: all. scan: the most attempts to look at.
-- tasks: in ascending order; null: none. last: the id up to which all was looked at; null: up to the end of
--     the last range.
--
-- It costs a look-up for each range and a read of the attempts within: most tasks that wait or work have none. Plans:
-- see tasks(). Index: attempt_pkey.
-- @roles reader
-- @standby yes
-- @gateway manager
-- @plan generic by-key
create or replace function taskq.done_within(
    p_campaign bigint,
    p_firsts bigint[],
    p_lasts bigint[],
    p_since timestamptz,
    p_scan integer,
    out tasks bigint[],
    out last bigint
)
language plpgsql stable
as $$
begin
    with met as materialized (
        select m.task_id, m.done
          from unnest(p_firsts, p_lasts) as r (first_id, last_id)
         cross join lateral (
             select a.task_id,
                    a.outcome = 'done' and (p_since is null or a.ended_at >= p_since) as done
               from taskq.attempt a
              where a.campaign_id = p_campaign
                and a.task_id >= r.first_id
                and a.task_id <= r.last_id
              order by a.campaign_id, a.task_id
              limit p_scan
         ) m
         limit p_scan
    )
    select array_agg(m.task_id order by m.task_id) filter (where m.done),
           case when count(*) >= p_scan then max(m.task_id) end
      into tasks, last
      from met m;

    -- The accepted attempt of the last one may come after the end of the scan.
    if last is not null and last is distinct from tasks[cardinality(tasks)] then
        perform from taskq.accepted_of(p_campaign, last) a where p_since is null or a.ended_at >= p_since;
        if found then
            tasks := tasks || last;
        end if;
    end if;
end
$$;
