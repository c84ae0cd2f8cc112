-- end_sums(path, per, since, most, places): how attempts at and below a path ended, from the sums that the keeper makes;
-- those that used most come first.
--
-- per: what to keep apart: campaign, host, site, release, time; the other columns are null. With `current` only what
-- ended in times that began after the campaign or an input was last changed, it was opened again, or a ban of the host
-- or site there ended; see attempt_sample(). since: from the ten minutes on that have this time, earlier than a day ago
-- the hour; null: all, which is a week. places: hosts, or without `host` in `per` sites; null: all.
-- starts: when the ten minutes, or the hour, begin. outcome, sort and the sums: see the table `end_sum`; run_s and
-- core_s in seconds.
-- Error TQ404: no such campaign.
--
-- Reads the sums from that time on, of all campaigns: at most 5,000 rows of each ten minutes; of `/`, whatever the
-- number of campaigns. Index: end_sum_pkey, campaign_pkey, campaign_path_key.
-- @roles reader
-- @standby yes
-- @gateway manager
-- @plan custom no-jit
create or replace function taskq.end_sums(
    p_path text, p_per text[], p_since timestamptz default null, p_most integer default 20000,
    p_places text[] default null)
returns table (
    campaign text,
    host text,
    site text,
    release text,
    starts timestamptz,
    outcome text,
    sort text,
    attempts bigint,
    run_s double precision,
    core_s double precision,
    logs double precision,
    squares double precision,
    numbers bigint,
    number_sum double precision,
    number_squares double precision,
    first_task bigint,
    last_task bigint,
    first_at timestamptz,
    last_at timestamptz
)
language plpgsql stable
as $$
declare
    v_top constant bigint := taskq.campaign_id(p_path);
    v_few constant integer := 1000;
    v_ids constant bigint[] := array(
        select c.campaign_id
          from taskq.campaign c
         where p_path <> '/'
           and (c.path = p_path or c.path > p_path || '/' and c.path < p_path || '0')
         limit v_few);
    -- Sums of removed campaigns stay for a while; of a few campaigns it is known that they are there.
    v_is_looked_up constant boolean :=
        'campaign' = any (p_per) or p_path = '/' or cardinality(v_ids) = v_few;
begin
    return query
        with many as materialized (
            select case when v_is_looked_up then e.campaign_id end as campaign_id,
                   case when 'host' = any (p_per) then e.host end as host,
                   case when 'site' = any (p_per) then e.site end as site,
                   case when 'release' = any (p_per) then e.release end as release,
                   case when 'time' = any (p_per) then e.since end as starts,
                   e.outcome, e.sort, taskq.total(e.attempts) as attempts,
                   taskq.total(e.run_ms) / 1000.0::double precision as run_s,
                   taskq.total(e.core_ms) / 1000.0::double precision as core_s, sum(e.logs) as logs,
                   sum(e.squares) as squares, taskq.total(e.numbers) as numbers,
                   sum(e.number_sum) as number_sum, sum(e.number_squares) as number_squares,
                   min(e.first_task) as first_task, max(e.last_task) as last_task, min(e.first_at) as first_at,
                   max(e.last_at) as last_at
              from taskq.end_sum e
             where (p_since is null
                    or e.since >= date_trunc('hour', p_since, 'UTC')
                   and (e.grain = 'hour' or e.since >= taskq.ten_minutes(p_since)))
               and (p_places is null
                    or case when 'host' = any (p_per) then e.host else e.site end = any (p_places))
               and ('current' <> all (p_per)
                    or not exists (
                           select from taskq.refused r
                            where r.campaign_id = e.campaign_id and r.since > e.since)
                   and not exists (
                           select
                             from taskq.ban b
                             join taskq.campaign k on k.campaign_id = e.campaign_id
                            where b.name = case b.kind when 'host' then e.host else e.site end
                              and b.until between e.since and statement_timestamp()
                              and taskq.at_or_below(k.path, b.path)))
               and (p_path = '/' or cardinality(v_ids) = v_few or e.campaign_id = any (v_ids))
             group by 1, 2, 3, 4, 5, 6, 7
        ), known as materialized (
            -- Each campaign once, not for each sum.
            select d.campaign_id, c.path
              from (select distinct m.campaign_id from many m) d
             cross join lateral taskq.campaign_of(d.campaign_id) c
             where v_top = any (c.lineage)
        )
        select case when 'campaign' = any (p_per) then k.path end, m.host, m.site, m.release, m.starts, m.outcome,
               m.sort, taskq.total(m.attempts), sum(m.run_s), sum(m.core_s), sum(m.logs), sum(m.squares),
               taskq.total(m.numbers), sum(m.number_sum), sum(m.number_squares), min(m.first_task),
               max(m.last_task), min(m.first_at), max(m.last_at)
          from many m
          left join known k on k.campaign_id = m.campaign_id
         where k.campaign_id is not null or not v_is_looked_up
         group by 1, 2, 3, 4, 5, 6, 7
        having taskq.total(m.attempts) > 0
         order by sum(m.core_s) desc, taskq.total(m.attempts) desc, 1, 2, 3, 4, 5, 6, 7
         limit p_most;
end
$$;
