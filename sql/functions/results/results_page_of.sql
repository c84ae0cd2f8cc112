-- results_page_of(campaign, after, limit): a page of accepted results, as results() returns it, in no order. A part
-- of functions that pin the settings; not for clients.
--
-- The tables are joined a page at a time: a look-up of each result's task and session takes a third longer. A page
-- whose tasks lie far apart looks each of them up all the same. It is inlined into the calling statement, as
-- task_state() is. Index: attempt_pkey, spec_pkey, session_pkey,
-- recipe_pkey.
create or replace function taskq.results_page_of(p_campaign bigint, p_after bigint, p_limit integer)
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
language sql stable
as $$
    with page as materialized (
        select a.task_id, a.attempt, a.claimed_at, a.ended_at, a.outcome, a.session_id, a.phases, a.result,
               a.recipe
          from taskq.attempt a
         where a.campaign_id = p_campaign
           and a.task_id > p_after
           and a.outcome = 'done'
         order by a.campaign_id, a.task_id
         limit p_limit
    ), member as materialized (
        select n.session_id, n.agent, n.host, n.site, n.offers
          from (select distinct p.session_id from page p) k
         cross join lateral taskq.session_of(k.session_id) n
    ), history as materialized (
        select taskq.recipes_since(p_campaign) as since
    ), ends as materialized (
        select min(p.task_id) as first, max(p.task_id) as last,
               max(p.task_id) - min(p.task_id) < 4 * count(*) as dense
          from page p
    ), content as (
        (
            select s.task_id, s.key, s.payload
              from taskq.spec s
             where (select e.dense from ends e)
               and s.campaign_id = p_campaign
               and s.task_id >= (select e.first from ends e)
               and s.task_id <= (select e.last from ends e)
             -- In the order of spec_pkey, so that no other index will do: see spec_of().
             order by s.campaign_id, s.task_id
        )
         union all
        select p.task_id, s.key, s.payload
          from page p
         cross join lateral taskq.spec_of(p_campaign, p.task_id) s
         where not (select e.dense from ends e)
    )
    select p.task_id, s.key, p.attempt, p.claimed_at, p.ended_at, n.agent, n.host, n.site,
           p.phases, s.payload, p.result,
           taskq.ran_recipe(p.recipe, p.outcome, p.ended_at, h.since, taskq.reports_recipes(n.offers))
      from page p
      join content s on s.task_id = p.task_id
      join member n on n.session_id = p.session_id
     cross join history h
$$;
