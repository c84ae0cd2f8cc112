-- latest_results(path, most): a sample of the latest results at and below a path, by campaign, host and site, for
-- the comparison of hosts; see attempt_sample().
--
-- campaign: its path. places: of the results in the order of their claims, ascending: priorities and the order of
--     seeding decide which tasks are alike, and both decide that order. digests: of the results. numbers: of the
--     field by which the campaign's results are ranked; without one, the only number in a result; null: there is
--     none. fields: its names. shapes: number, if it has that field as a number, or without a rank any number; none:
--     there is no result; missing: no such field; else the type that it has. claims: when they were claimed.
--     releases: of their agents. ranks: whether the campaign names the field. site: of the host. runs: for how many
--     seconds the attempts ran. tasks: their ids.
-- Takes first attempts only: those that come after a failure went to other hosts, and are not like the others. Takes
-- no result above 8 kB.
-- Error TQ404: no such campaign.
--
-- Reads `most` attempts with their results at most, each once. Plans: see tasks(). Index: those of attempt_sample(),
-- session_pkey, campaign_pkey.
-- @roles reader
-- @standby yes
-- @gateway manager
-- @plan generic by-key
create or replace function taskq.latest_results(p_path text, p_most integer)
returns table (
    campaign text,
    host text,
    places bigint[],
    digests integer[],
    numbers double precision[],
    fields text[],
    shapes text[],
    claims timestamptz[],
    releases text[],
    ranks boolean,
    site text,
    runs double precision[],
    tasks bigint[]
)
language plpgsql stable
as $$
begin
    return query
        with sample as materialized (
            select s.campaign_id, s.task_id, s.session_id, s.claimed_at, s.run_s, s.result
              from taskq.attempt_sample(p_path, p_most, true) s
             where s.result is not null
        ), valued as materialized (
            select k.path, s.task_id, s.run_s, n.host, n.site, hashtext(s.result::text) as digest, v.name, v.number,
                   k.best is not null as ranks, n.release, s.claimed_at,
                   case when s.result = 'null' then 'none'
                        when v.number is not null then 'number'
                        when k.best is not null
                        then coalesce(jsonb_typeof(taskq.value_at(s.result, k.best)), 'missing')
                        when exists (select from jsonb_each(o.fields) o where jsonb_typeof(o.value) = 'number')
                        then 'number'
                        else 'other' end as shape,
                   row_number() over (partition by s.campaign_id order by s.claimed_at, s.task_id) as place
              from (
                  -- Once for each campaign, of which there are few.
                  select c.campaign_id, c.path, taskq.best_field(c.best) as best
                    from (select distinct s.campaign_id from sample s) d
                   cross join lateral taskq.campaign_of(d.campaign_id) c
                  offset 0
              ) k
             cross join lateral (select s.* from sample s where s.campaign_id = k.campaign_id offset 0) s
             cross join lateral taskq.session_of(s.session_id) n
             cross join lateral (
                 select case when jsonb_typeof(s.result) = 'object' then s.result else '{}' end as fields
             ) o
             cross join lateral (
                 select k.best as name, taskq.number_at(s.result, k.best) as number
                  where k.best is not null
                  union all
                 select min(o.key), min(taskq.number_at(s.result, o.key))
                   from jsonb_each(o.fields) o
                  where k.best is null
                    and jsonb_typeof(o.value) = 'number'
                 having count(*) = 1
                  union all
                 select null, null
                 limit 1
             ) v
        )
        select v.path, v.host, array_agg(v.place order by v.place),
               array_agg(v.digest order by v.place),
               array_agg(case when abs(v.number) < 1e300 and (v.number = 0 or abs(v.number) > 1e-300)
                              then v.number::double precision end order by v.place),
               array_agg(distinct v.name),
               array_agg(v.shape order by v.place), array_agg(v.claimed_at order by v.place),
               array_agg(v.release order by v.place), bool_and(v.ranks), v.site,
               array_agg(v.run_s order by v.place), array_agg(v.task_id order by v.place)
          from valued v
         where v.host <> ''
         group by v.path, v.host, v.site
         order by v.path, v.host, v.site;
end
$$;
