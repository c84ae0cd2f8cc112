-- result_sample(campaign, name, stretches, each): numbers at `name` in accepted results from all parts of a campaign.
--
-- name: see value_at(); null: whole results instead. stretches: the number of equal parts of the range of its
--     task ids; each: how many attempts to read from the start of each part.
-- Result: a row for each accepted result that was met, ordered by task: value, null where there is no
--     number that a double can hold; result, null with a name.
-- Reads stretches * each attempts at most; all there are, if none of the parts has more. Memory is bounded
-- by that. Plans: see tasks(). Index: attempt_pkey.
-- @roles reader
-- @standby yes
-- @gateway no
-- @plan generic by-key
create or replace function taskq.result_sample(
    p_campaign bigint,
    p_name text,
    p_stretches integer,
    p_each integer
)
returns table (task_id bigint, value double precision, result jsonb)
language plpgsql stable
as $$
declare
    v_first constant bigint := (
        select a.task_id
          from taskq.attempt a
         where a.campaign_id = p_campaign
         order by a.campaign_id, a.task_id
         limit 1);
    v_end constant bigint := 1 + (
        select a.task_id
          from taskq.attempt a
         where a.campaign_id = p_campaign
         order by a.campaign_id desc, a.task_id desc
         limit 1);
begin
    return query
        select m.task_id,
               (select case when abs(n.number) < 1e300 and (n.number = 0 or abs(n.number) > 1e-300)
                            then n.number::double precision end
                  from (
                      select case when jsonb_typeof(o.value) = 'number'
                                  then o.value::numeric end as number
                        from (select taskq.value_at(m.result, p_name) as value) o
                  ) n),
               case when p_name is null then m.result end
          from generate_series(0, p_stretches - 1) i
         cross join lateral (
             select a.task_id, a.outcome, a.result
               from taskq.attempt a
              where a.campaign_id = p_campaign
                and a.task_id >= v_first + (v_end - v_first) * i / p_stretches
                and a.task_id < v_first + (v_end - v_first) * (i + 1) / p_stretches
              order by a.campaign_id, a.task_id
              limit p_each
         ) m
         where m.outcome = 'done'
         order by m.task_id;
end
$$;
