-- forget_results(campaign, tasks): takes results that are withdrawn out of the indexes of a campaign. A part of
-- withdraw(), which calls it before the results go; not for clients.
--
-- tasks: they have results. The index takes in their next results as it does others.
--
-- Locks: the indexes of the campaign, in the order of their ids. Plans: see tasks().
-- Index: result_index_pkey, result_span_pkey, result_rank_pkey.
-- @plan generic by-key
create or replace function taskq.forget_results(p_campaign bigint, p_tasks bigint[])
returns void
language plpgsql
as $$
declare
    v_index bigint;
    v_tasks bigint[];
    v_firsts bigint[];
    v_lasts bigint[];
    v_ranked bigint;
    v_large bigint;
begin
    for v_index in
        select i.index_id
          from taskq.result_index i
         where i.campaign_id = p_campaign
           and not i.dropped
         order by i.index_id
           for update
    loop
        -- The tasks that the index has, each with its range.
        select array_agg(u.task_id order by u.task_id), array_agg(s.first_id order by u.task_id),
               array_agg(s.last_id order by u.task_id)
          into v_tasks, v_firsts, v_lasts
          from unnest(p_tasks) as u (task_id)
         cross join lateral (
               select s.first_id, s.last_id
                 from taskq.result_span s
                where s.index_id = v_index
                  and s.first_id <= u.task_id
                order by s.index_id desc, s.first_id desc
                limit 1) s
         where u.task_id <= s.last_id;
        continue when v_tasks is null;

        with valued as materialized (
            select v.task_id, v.rank, v.large from taskq.indexed_results(v_index, v_tasks) v
        ), gone as (
            delete from taskq.result_rank r
             using valued v
             where r.index_id = v_index
               and r.rank = v.rank
               and r.task_id = v.task_id
        )
        select count(v.rank), count(*) filter (where v.large) into v_ranked, v_large from valued v;
        update taskq.result_index i
           set seen = i.seen - cardinality(v_tasks),
               ranked = i.ranked - v_ranked,
               large = i.large - v_large,
               looked = 0
         where i.index_id = v_index;

        delete from taskq.result_span s
         where s.index_id = v_index
           and s.first_id = any (v_firsts);
        -- What is left of each range: before each of the tasks, and after the last.
        insert into taskq.result_span (index_id, first_id, last_id)
        select v_index, p.first_id, p.last_id
          from (
              select coalesce(lag(u.task_id) over span + 1, u.first_id) as first_id, u.task_id - 1 as last_id
                from unnest(v_tasks, v_firsts) as u (task_id, first_id)
              window span as (partition by u.first_id order by u.task_id)
               union all
              select max(u.task_id) + 1, u.last_id
                from unnest(v_tasks, v_lasts) as u (task_id, last_id)
               group by u.last_id
          ) p
         where p.first_id <= p.last_id;
    end loop;
end
$$;
