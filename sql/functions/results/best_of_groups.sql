-- best_of_groups(campaign, part, name, ascending, group_part, group_name, inline, after, scan,
-- recipe): the accepted
-- result with the highest, or the lowest, value of a field in each group, among the next `scan` attempts of a
-- campaign in the order of task ids. Call it again with `after` until `last` is null.
--
-- part, name, ascending, inline, after, recipe: see best_results(). group_part, group_name: payload or result, and
--     a name there: results with the same JSON there are a group.
-- tasks, ranks, groups: of equal values the task seeded first; a group is a digest of 16 bytes.
--     large, large_groups: tasks whose result refers to a blob, and their groups if the payload has them. seen:
--     accepted results. ranked: those with a number and a group. last: the id to go on after.
--
-- Memory is bounded by `scan` ids with value and digest. Plans: see tasks(). Index: attempt_pkey, spec_pkey, session_pkey,
-- recipe_pkey.
-- @roles reader
-- @standby yes
-- @gateway manager
-- @plan generic by-key
create or replace function taskq.best_of_groups(
    p_campaign bigint,
    p_part text,
    p_name text,
    p_ascending boolean,
    p_group_part text,
    p_group_name text,
    p_inline boolean,
    p_after bigint,
    p_scan integer,
    p_recipe integer,
    out tasks bigint[],
    out ranks numeric[],
    out groups bytea[],
    out large bigint[],
    out large_groups bytea[],
    out seen bigint,
    out ranked bigint,
    out last bigint
)
language plpgsql stable
as $$
declare
    v_since constant timestamptz := case when p_recipe is not null then taskq.recipes_since(p_campaign) end;
begin
    with met as materialized (
        select a.task_id, a.outcome = 'done'
               and (p_recipe is null
                    or taskq.ran_recipe(
                           a.recipe, a.outcome, a.ended_at, v_since,
                           (select taskq.reports_recipes(n.offers) from taskq.session_of(a.session_id) n)) = p_recipe) as done,
               a.attempt, a.claimed_at, a.ended_at, a.phases,
               case when 'result' in (p_part, p_group_part) then a.result end as result,
               p_inline and taskq.is_reference(a.result) as large
          from taskq.attempt a
         where a.campaign_id = p_campaign
           and a.task_id > p_after
         order by a.campaign_id, a.task_id
         fetch first p_scan rows with ties  -- those of a task stay together
    ), valued as materialized (
        select m.task_id, m.large,
               case
                   when m.large then null
                   when p_part = 'task_id' then m.task_id
                   when p_part = 'attempt' then m.attempt
                   when p_part = 'claimed_at' then extract(epoch from m.claimed_at)
                   when p_part = 'ended_at' then extract(epoch from m.ended_at)
                   else taskq.number_at(
                       case p_part when 'payload' then o.payload
                                   when 'result' then m.result
                                   when 'phases' then m.phases end, p_name)
               end as rank,
               case when m.large and p_group_part = 'result' then null
                    else (
                        select substr(sha256(convert_to(nullif(g.value, 'null')::text, 'UTF8')), 1, 16)
                          from (select taskq.value_at(
                                    case p_group_part when 'payload' then o.payload
                                                      when 'result' then m.result end,
                                    p_group_name) as value) g)
               end as grp
          from met m
         cross join lateral (
             select case when 'payload' in (p_part, p_group_part)
                         then (select s.payload from taskq.spec_of(p_campaign, m.task_id) s) end
                        as payload
             offset 0
         ) o
         where m.done
    ), best as (
        select distinct on (v.grp) v.task_id, v.rank, v.grp
          from valued v
         where v.rank is not null
           and v.grp is not null
         order by v.grp, case when p_ascending then v.rank else -v.rank end, v.task_id
    )
    select (select array_agg(b.task_id order by b.grp) from best b),
           (select array_agg(b.rank order by b.grp) from best b),
           (select array_agg(b.grp order by b.grp) from best b),
           array_agg(v.task_id order by v.task_id) filter (where v.large),
           array_agg(v.grp order by v.task_id) filter (where v.large),
           count(v.task_id),
           count(v.task_id) filter (where v.rank is not null and v.grp is not null),
           (select max(m.task_id) from met m)
      into tasks, ranks, groups, large, large_groups, seen, ranked, last
      from valued v;
end
$$;
