-- best_indexed(campaign, part, name, ascending, top, worst, inline): what best_results() finds in a whole campaign,
-- from an index that has all its results; not for clients.
--
-- seen: null if there is no such index. For the parameters and other columns see best_results().
-- Plans: see tasks(). Index: result_index_field, result_rank_pkey.
--
-- Of equal values the task seeded first comes first. From the highest value down the index has them the other way
-- round: so the function looks up the last value, and reads its tasks forwards. Either way it reads `top` entries.
-- @plan generic by-key
create or replace function taskq.best_indexed(
    p_campaign bigint,
    p_part text,
    p_name text,
    p_ascending boolean,
    p_top integer,
    p_worst numeric,
    p_inline boolean,
    out tasks bigint[],
    out ranks numeric[],
    out seen bigint,
    out ranked bigint
)
language plpgsql stable
as $$
declare
    v_index taskq.result_index;
    v_bound constant numeric :=
        coalesce(p_worst, case when p_ascending then 'Infinity' else '-Infinity' end::numeric);
    v_last numeric;
begin
    select i.* into v_index
      from taskq.result_index i
     where i.campaign_id = p_campaign
       and i.part = p_part
       and i.name = p_name
       and not i.dropped;
    if not found or p_inline and v_index.large > 0 or v_index.seen <> taskq.done_count(p_campaign) then
        return;
    end if;
    seen := v_index.seen;
    ranked := v_index.ranked;
    if p_ascending then
        select array_agg(b.task_id order by b.rank, b.task_id), array_agg(b.rank order by b.rank, b.task_id)
          into tasks, ranks
          from (
              select r.rank, r.task_id
                from taskq.result_rank r
               where r.index_id = v_index.index_id
                 and r.rank < v_bound
               order by r.index_id, r.rank, r.task_id
               limit p_top
          ) b;
        return;
    end if;
    select min(b.rank) into v_last
      from (
          select r.rank
            from taskq.result_rank r
           where r.index_id = v_index.index_id
             and r.rank > v_bound
           order by r.index_id desc, r.rank desc, r.task_id desc
           limit p_top
      ) b;
    select array_agg(b.task_id order by -b.rank, b.task_id), array_agg(b.rank order by -b.rank, b.task_id)
      into tasks, ranks
      from (
          select e.rank, e.task_id
            from (
                (select r.rank, r.task_id
                   from taskq.result_rank r
                  where r.index_id = v_index.index_id
                    and r.rank > v_last)
                 union all
                (select r.rank, r.task_id
                   from taskq.result_rank r
                  where r.index_id = v_index.index_id
                    and r.rank >= v_last
                    and r.rank <= v_last
                  order by r.index_id, r.rank, r.task_id
                  limit p_top)
            ) e
           order by -e.rank, e.task_id
           limit p_top
      ) b;
end
$$;
