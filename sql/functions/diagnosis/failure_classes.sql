-- failure_classes(campaign): attempts that failed, were lost or were refused, by error class; most frequent first.
--
-- Reads only unsuccessful attempts of the campaign. Plans: see tasks().
-- Index: attempt_unsuccessful.
-- @roles reader
-- @standby yes
-- @gateway manager
-- @plan generic by-key
create or replace function taskq.failure_classes(p_campaign bigint)
returns table (error_class text, attempts bigint)
language plpgsql stable
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
