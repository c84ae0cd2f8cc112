-- take_in_results(index, scan): takes the next results into an index; not for clients.
--
-- scan: attempts that are looked at, at most. taken: results that were taken in. complete: whether the end
--     of the campaign was reached; then the next call begins with its first task again.
--
-- Looks into the gaps between the ranges that were taken in, a thousand in a call, as done_within() does.
--
-- Locks: the index's row; if somebody else has locked it, the call does nothing.
-- Plans: see tasks(). Index: result_index_pkey, result_span_pkey, attempt_pkey, spec_pkey.
-- @plan generic by-key
create or replace function taskq.take_in_results(
    p_index bigint, p_scan integer, out taken bigint, out complete boolean)
language plpgsql
as $$
declare
    v_most constant integer := 1000;
    v_index taskq.result_index;
    v_firsts bigint[];
    v_lasts bigint[];
    v_end bigint;
    v_more boolean;
    v_tasks bigint[];
    v_last bigint;
    v_ranked bigint;
    v_large bigint;
    v_gone bigint[];
    v_new_firsts bigint[];
    v_new_lasts bigint[];
begin
    taken := 0;
    complete := false;
    select i.* into v_index
      from taskq.result_index i
     where i.index_id = p_index
       and not i.dropped
       for update skip locked;
    if not found then
        return;
    end if;

    -- The range at which it continues, and those above it.
    select array_agg(s.first_id order by s.first_id), array_agg(s.last_id order by s.first_id)
      into v_firsts, v_lasts
      from (
          select s.first_id, s.last_id
            from taskq.result_span s
           where s.index_id = p_index
             and s.first_id >= coalesce(
                     (select b.first_id
                        from taskq.result_span b
                       where b.index_id = p_index
                         and b.first_id <= v_index.looked
                       order by b.index_id desc, b.first_id desc
                       limit 1), 0)
           order by s.index_id, s.first_id
           limit v_most
      ) s;
    v_more := cardinality(v_firsts) = v_most;
    v_end := v_lasts[cardinality(v_lasts)];
    select d.tasks, d.last into v_tasks, v_last
      from (
          select array_agg(g.first_id order by g.first_id) as firsts,
                 array_agg(g.last_id order by g.first_id) as lasts
            from (
                select greatest(lag(u.last_id, 1, 0::bigint) over (order by u.first_id), v_index.looked) + 1,
                       u.first_id - 1
                  from unnest(v_firsts, v_lasts) as u (first_id, last_id)
                 union all
                select greatest(v_end, v_index.looked) + 1, 9223372036854775807
                 where v_more is not true
            ) g (first_id, last_id)
           where g.first_id <= g.last_id
      ) g
     cross join lateral taskq.done_within(v_index.campaign_id, g.firsts, g.lasts, null, p_scan) d;

    if v_tasks is not null then
        taken := cardinality(v_tasks);
        with valued as materialized (
            select v.task_id, v.rank, v.large from taskq.indexed_results(p_index, v_tasks) v
        ), added as (
            insert into taskq.result_rank (index_id, rank, task_id)
            select p_index, v.rank, v.task_id from valued v where v.rank is not null
        )
        select count(v.rank), count(*) filter (where v.large) into v_ranked, v_large from valued v;

        -- New ranges, merged with their old neighbours.
        select array_agg(m.first_id), array_agg(m.last_id) into v_new_firsts, v_new_lasts
          from (
              select min(n.first_id) as first_id, max(n.last_id) as last_id
                from (
                    select b.*, count(*) filter (where b.begins) over (order by b.first_id) as number
                      from (
                          select p.*,
                                 lag(p.last_id) over (order by p.first_id)
                                 is distinct from p.first_id - 1 as begins
                            from (
                                select u.first_id, u.last_id, false as fresh
                                  from unnest(v_firsts, v_lasts) as u (first_id, last_id)
                                 union all
                                select t.task_id, t.task_id, true from unnest(v_tasks) as t (task_id)
                            ) p
                      ) b
                ) n
               group by n.number
              having bool_or(n.fresh)
          ) m;
        delete from taskq.result_span s
         using unnest(v_new_firsts, v_new_lasts) as n (first_id, last_id)
         where s.index_id = p_index
           and s.first_id >= n.first_id
           and s.first_id <= n.last_id;
        insert into taskq.result_span (index_id, first_id, last_id)
        select p_index, n.first_id, n.last_id
          from unnest(v_new_firsts, v_new_lasts) as n (first_id, last_id);
    end if;

    complete := v_last is null and v_more is not true;
    update taskq.result_index i
       set looked = case when complete then 0 else coalesce(v_last, v_end) end,
           seen = i.seen + taken,
           ranked = i.ranked + coalesce(v_ranked, 0),
           large = i.large + coalesce(v_large, 0)
     where i.index_id = p_index;
end
$$;
