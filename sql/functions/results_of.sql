-- results_of(campaign, tasks): the accepted results of some tasks, in the given order; no row for a task that
-- has none (any more).
--
-- Columns: see results(). Plans: see tasks(). Index: attempt_pkey, spec_pkey, session_pkey.
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
    result jsonb
)
language plpgsql stable
as $$
begin
    return query
        select r.*
          from unnest(p_tasks) with ordinality as k (task_id, ord)
         cross join lateral (
             -- A page of one task.
             select r.*
               from taskq.results(p_campaign, k.task_id - 1, 1) r
              where r.task_id = k.task_id
             offset 0
         ) r
         order by k.ord;
end
$$;
