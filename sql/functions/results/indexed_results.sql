-- indexed_results(index, tasks): what an index keeps of the results of tasks. A part of take_in_results() and
-- forget_results(), which pin the settings; not for clients.
--
-- rank: the number; null: the result has none. large: whether the result is kept as a blob, and its number unknown.
-- Result: no row for a task without a result. Index: result_index_pkey, attempt_pkey, spec_pkey.
create or replace function taskq.indexed_results(p_index bigint, p_tasks bigint[])
returns table (task_id bigint, rank numeric, large boolean)
language plpgsql stable
as $$
declare
    v_index taskq.result_index;
begin
    select i.* into v_index from taskq.result_index i where i.index_id = p_index;
    return query
        select k.task_id,
               taskq.number_at(
                   case v_index.part
                       when 'result' then a.result
                       when 'phases' then a.phases
                       else (select s.payload from taskq.spec_of(v_index.campaign_id, k.task_id) s)
                   end, v_index.name),
               v_index.part = 'result' and taskq.is_reference(a.result)
          from unnest(p_tasks) as k (task_id)
         cross join lateral taskq.accepted_of(v_index.campaign_id, k.task_id) a;
end
$$;
