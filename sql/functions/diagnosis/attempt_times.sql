-- attempt_times(path, most): from when to when attempts ran that failed lately, and those that did not, by campaign
-- at and below a path where some failed; see attempt_sample(), of which it takes `most` attempts.
--
-- The lists have an entry for each attempt, in the order in which they began. hosts: where; classes: of the error, null
-- if it succeeded. Lost attempts are left out: they end together, whatever runs.
-- Error TQ404: no such campaign.
--
-- Reads `most` attempts. Plans: see tasks(). Index: those of attempt_sample(), session_pkey, campaign_pkey.
-- @roles reader
-- @standby yes
-- @gateway manager
-- @plan generic by-key
create or replace function taskq.attempt_times(p_path text, p_most integer)
returns table (
    campaign text,
    hosts text[],
    classes text[],
    began_at timestamptz[],
    ended_at timestamptz[]
)
language plpgsql stable
as $$
begin
    return query
        select c.path, array_agg(r.host order by r.began_at, r.task_id),
               array_agg(r.error_class order by r.began_at, r.task_id),
               array_agg(r.began_at order by r.began_at, r.task_id), array_agg(r.ended_at order by r.began_at, r.task_id)
          from (
              select s.campaign_id, s.task_id, n.host, s.ended_at,
                     s.ended_at - make_interval(secs => s.run_s) as began_at,
                     case when s.outcome <> 'done' then coalesce(s.error_class, '') end as error_class
                from taskq.attempt_sample(p_path, p_most) s
               cross join lateral taskq.session_of(s.session_id) n
               where s.outcome in ('done', 'failed')
                 and not s.outdated
          ) r
         cross join lateral taskq.campaign_of(r.campaign_id) c
         group by c.path
        having bool_or(r.error_class is not null)
         order by c.path;
end
$$;
