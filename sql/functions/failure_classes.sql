-- failure_classes(campaign): attempts that failed, were lost or were refused, by error class; most frequent first.
--
-- Reads what is unsuccessful of the campaign, and nothing else. Plans: see tasks().
-- Index: attempt_unsuccessful.
-- @roles reader
-- @standby yes
-- @gateway manager
create or replace function taskq.failure_classes(p_campaign bigint)
returns table (error_class text, attempts bigint)
language plpgsql stable
security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set jit = off
as $$
begin
    return query
        select f.error_class, count(*)
          from (
              select coalesce(a.error_class, '') as error_class
                from taskq.attempt a
               where a.campaign_id = p_campaign
                 and (a.outcome in ('failed', 'lost') or a.refused)
                 and a.outcome <> 'done'
               order by a.campaign_id, a.error_class, a.task_id
              offset 0
          ) f
         group by f.error_class
         order by count(*) desc, f.error_class;
end
$$;
