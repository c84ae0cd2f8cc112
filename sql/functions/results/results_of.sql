-- results_of(campaign, tasks): the accepted results of some tasks, in the given order; no row for a task that
-- has none (any more).
--
-- Columns: see results(). Plans: see tasks(). Index: attempt_pkey, spec_pkey, session_pkey, recipe_pkey.
-- @roles reader
-- @standby yes
-- @gateway manager
-- @plan generic by-key
create or replace function taskq.results_of(p_campaign bigint, p_tasks bigint[])
returns table (
    task_id bigint,
    key text,
    attempt integer,
    claimed_at timestamptz,
    ended_at timestamptz,
    agent text,
    host text,
    site text,
    phases jsonb,
    payload jsonb,
    result jsonb,
    recipe integer
)
language plpgsql stable
as $$
declare
    v_since constant timestamptz := taskq.recipes_since(p_campaign);
begin
    return query
        select k.task_id, s.key, a.attempt, a.claimed_at, a.ended_at, n.agent, n.host, n.site,
               a.phases, s.payload, a.result,
               taskq.ran_recipe(a.recipe, a.outcome, a.ended_at, v_since, taskq.reports_recipes(n.offers))
          from unnest(p_tasks) with ordinality as k (task_id, ord)
         cross join lateral taskq.accepted_of(p_campaign, k.task_id) a
         cross join lateral taskq.spec_of(p_campaign, k.task_id) s
         cross join lateral taskq.session_of(a.session_id) n
         order by k.ord;
end
$$;
