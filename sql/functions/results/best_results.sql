-- best_results(campaign, part, name, ascending, top, worst, inline, after, scan, recipe): the accepted results with
-- the highest, or the lowest, values of a field, among the next `scan` attempts of a campaign in the order of
-- task ids. Call it again with `after` until `last` is null to get the best of all.
--
-- part: result, payload, phases: the value is the number at `name` there, see value_at(); task_id, attempt,
--     claimed_at, ended_at: the value is that itself, instants in seconds. ascending: the lowest first. top: how many
--     are wanted. worst: only better ones than this; null: all.
-- recipe: only results of this one, see ran_recipe(); null: all. No index knows it.
-- inline: leave out results that refer to a blob, and name them in `large`.
-- tasks, ranks: at most `top`, best first; of equal values the task seeded first. seen: accepted results.
--     ranked: those of them that have a number there. last: the id to go on after.
--
-- If `after` is 0, an index that has all results answers for the whole campaign at once; see best_indexed().
--
-- A number is compared exactly; see number_at() for what is one. Memory is bounded by
-- `scan` ids with their values. Plans: see tasks(). Index: attempt_pkey, spec_pkey, session_pkey, recipe_pkey.
-- @roles reader
-- @standby yes
-- @gateway manager
-- @plan generic by-key
create or replace function taskq.best_results(
    p_campaign bigint,
    p_part text,
    p_name text,
    p_ascending boolean,
    p_top integer,
    p_worst numeric,
    p_inline boolean,
    p_after bigint,
    p_scan integer,
    p_recipe integer,
    out tasks bigint[],
    out ranks numeric[],
    out large bigint[],
    out seen bigint,
    out ranked bigint,
    out last bigint
)
language plpgsql stable
as $$
declare
    v_since constant timestamptz := case when p_recipe is not null then taskq.recipes_since(p_campaign) end;
begin
    if p_after = 0 and p_recipe is null then
        select b.tasks, b.ranks, b.seen, b.ranked into tasks, ranks, seen, ranked
          from taskq.best_indexed(
                   p_campaign, p_part, p_name, p_ascending, p_top, p_worst, p_inline) b;
        if seen is not null then
            return;
        end if;
    end if;
    with met as materialized (
        select a.task_id, a.outcome = 'done'
               and (p_recipe is null
                    or taskq.ran_recipe(
                           a.recipe, a.outcome, a.ended_at, v_since,
                           (select taskq.reports_recipes(n.offers) from taskq.session_of(a.session_id) n)) = p_recipe) as done,
               a.attempt, a.claimed_at, a.ended_at,
               case p_part when 'result' then a.result when 'phases' then a.phases end as object,
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
                       case when p_part = 'payload'
                            then (select s.payload from taskq.spec_of(p_campaign, m.task_id) s)
                            else m.object end, p_name)
               end as rank
          from met m
         where m.done
    ), best as (
        select v.task_id, v.rank,
               row_number() over (
                   order by case when p_ascending then v.rank else -v.rank end, v.task_id) as place
          from valued v
         where v.rank is not null
           and (p_worst is null or case when p_ascending then v.rank < p_worst else v.rank > p_worst end)
         order by case when p_ascending then v.rank else -v.rank end, v.task_id
         limit p_top
    )
    select (select array_agg(b.task_id order by b.place) from best b),
           (select array_agg(b.rank order by b.place) from best b),
           array_agg(v.task_id order by v.task_id) filter (where v.large),
           count(v.task_id), count(v.rank),
           (select max(m.task_id) from met m)
      into tasks, ranks, large, seen, ranked, last
      from valued v;
end
$$;
