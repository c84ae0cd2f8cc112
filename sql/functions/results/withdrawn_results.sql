-- withdrawn_results(campaign, tasks, attempts): withdrawn results of some tasks, in the given order; no row for an
-- attempt without one.
--
-- attempts: one for each of the tasks. result: null. Other columns: see results(). Plans: see tasks().
-- Index: attempt_pkey, spec_pkey, session_pkey, recipe_pkey.
-- @roles reader
-- @standby yes
-- @gateway manager
-- @plan generic by-key
create or replace function taskq.withdrawn_results(p_campaign bigint, p_tasks bigint[], p_attempts integer[])
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
        select w.task_id, s.key, w.attempt, a.claimed_at, a.ended_at, n.agent, n.host, n.site, a.phases,
               s.payload, null::jsonb,
               taskq.ran_recipe(a.recipe, a.outcome, a.ended_at, v_since, taskq.reports_recipes(n.offers))
          from unnest(p_tasks, p_attempts) with ordinality as w (task_id, attempt, ord)
         cross join lateral taskq.attempt_of(p_campaign, w.task_id, w.attempt) a
         cross join lateral taskq.spec_of(p_campaign, w.task_id) s
         cross join lateral taskq.session_of(a.session_id) n
         where a.outcome::text = 'withdrawn'
         order by w.ord;
end
$$;
