-- usage(path, per, since, most): what the attempts that ended at and below a path used, also those of tasks and campaigns
-- that were removed; those who used most come first, within a day or month.
--
-- per: what to keep apart: owner, campaign, site, day or month, end; the other columns are null. since: from the hour
-- on that has this time; earlier than three days ago the day, earlier than a hundred days ago the month; null: all.
-- starts: when the day or the month begins, in UTC; days that are older than a hundred days are months. run_s: of slots;
-- core_s: times the cores that agents offer a slot, and of these those of attempts that were done, and so on; cancelled
-- with those that were given up for a second attempt. gpu_s: of slots, times the GPUs that tasks need.
-- Error TQ404: there is no such campaign, and there was none.
--
-- Reads the sums alone. Index: usage_pkey, campaign_path_key.
-- @roles reader
-- @standby yes
-- @gateway manager
-- @plan custom no-jit
create or replace function taskq.usage(
    p_path text, p_per text[], p_since timestamptz default null, p_most integer default 20000)
returns table (
    owner text,
    campaign text,
    site text,
    starts timestamptz,
    "end" text,
    attempts bigint,
    run_s double precision,
    core_s double precision,
    done_core_s double precision,
    failed_core_s double precision,
    lost_core_s double precision,
    cancelled_core_s double precision,
    released_core_s double precision,
    gpu_s double precision
)
language plpgsql stable
as $$
begin
    return query
        select u.owner, u.path, u.site, u.starts, case when 'end' = any (p_per) then u.outcome end,
               taskq.total(u.attempts),
               taskq.total(u.run_ms) / 1000.0::double precision,
               taskq.total(u.core_ms) / 1000.0::double precision,
               taskq.total(u.core_ms) filter (where u.outcome = 'done') / 1000.0::double precision,
               taskq.total(u.core_ms) filter (where u.outcome = 'failed') / 1000.0::double precision,
               taskq.total(u.core_ms) filter (where u.outcome = 'lost') / 1000.0::double precision,
               taskq.total(u.core_ms) filter (where u.outcome in ('cancelled', 'hedged')) / 1000.0::double precision,
               taskq.total(u.core_ms) filter (where u.outcome = 'released') / 1000.0::double precision,
               taskq.total(u.gpu_ms) / 1000.0::double precision
          from (
              -- First the many rows, with few sums.
              select case when 'owner' = any (p_per) then u.owner end as owner,
                     case when 'campaign' = any (p_per) then u.path end as path,
                     case when 'site' = any (p_per) then u.site end as site,
                     case when 'day' = any (p_per) then date_trunc('day', u.since, 'UTC')
                          when 'month' = any (p_per) then date_trunc('month', u.since, 'UTC') end as starts,
                     u.outcome, taskq.total(u.attempts) as attempts, taskq.total(u.run_ms) as run_ms,
                     taskq.total(u.core_ms) as core_ms, taskq.total(u.gpu_ms) as gpu_ms
                from taskq.usage u
               where (u.path = p_path
                      or u.path > rtrim(p_path, '/') || '/' and u.path < rtrim(p_path, '/') || '0')
                 and (p_since is null or u.since >= date_trunc(u.grain, p_since, 'UTC'))
               group by 1, 2, 3, 4, 5
          ) u
         group by 1, 2, 3, 4, 5
         order by 4, 8 desc, 1, 2, 3, 5
         limit p_most;
    if not found then
        perform from taskq.usage u where u.path >= p_path and u.path < rtrim(p_path, '/') || '0' limit 1;
        if not found then
            perform taskq.campaign_id(p_path);
        end if;
    end if;
end
$$;
