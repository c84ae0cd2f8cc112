-- results(campaign, after, limit): a page of accepted results, in the order of task ids.
--
-- after: see tasks(). Result: `limit` rows at most; none: there are no more.
-- recipe: see ran_recipe().
-- Index: attempt_pkey, spec_pkey, session_pkey, recipe_pkey.
-- @roles reader
-- @standby yes
-- @gateway manager, paged
-- @plan generic by-scan
create or replace function taskq.results(p_campaign bigint, p_after bigint, p_limit integer)
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
begin
    return query
        select r.* from taskq.results_page_of(p_campaign, p_after, p_limit) r order by r.task_id;
end
$$;
