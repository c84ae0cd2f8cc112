-- failing_tasks(path, most): the outcome of tasks with a failed, lost or refused attempt, by campaign and
-- class of error, as far as a sample of the latest attempts shows; see attempt_sample().
--
-- campaign: its path. attempts: how many ended so; tasks: of how many tasks. again: tasks to which it
--     happened on several hosts; then_done: of the other tasks, those done by an attempt on another host.
--     memory, time_limit_s: what the campaign allows an attempt now.
-- Error TQ404: no such campaign.
--
-- Index: those of attempt_sample(), session_pkey, campaign_pkey.
-- @roles reader
-- @standby yes
-- @gateway manager
-- @plan generic by-key
create or replace function taskq.failing_tasks(p_path text, p_most integer)
returns table (
    campaign text,
    error_class text,
    attempts bigint,
    tasks bigint,
    again bigint,
    then_done bigint,
    memory bigint[],
    time_limit_s double precision
)
language plpgsql stable
as $$
begin
    return query
        with placed as (
            select s.campaign_id, s.task_id, coalesce(s.error_class, '') as error_class, s.outcome, n.host,
                   array_agg(n.host) filter (where s.outcome = 'done')
                       over (partition by s.campaign_id, s.task_id) as done_on
              from taskq.attempt_sample(p_path, p_most) s
             cross join lateral (
                 select n.host from taskq.session n where n.session_id = s.session_id offset 0
             ) n
        ), fates as (
            select p.campaign_id, p.error_class, count(*) as attempts,
                   count(distinct p.host) > 1 as again,
                   not max(p.done_on) <@ array_agg(p.host) as then_done
              from placed p
             where p.outcome in ('failed', 'lost', 'refused')
             group by p.campaign_id, p.task_id, p.error_class
        )
        select c.path, f.error_class, taskq.total(f.attempts), count(*), count(*) filter (where f.again),
               count(*) filter (where f.then_done and not f.again), c.memory, c.time_limit_s
          from fates f
         cross join lateral (
             select c.path, c.memory, c.time_limit_s
               from taskq.campaign c
              where c.campaign_id = f.campaign_id
             offset 0
         ) c
         group by c.path, f.error_class, c.memory, c.time_limit_s
         order by count(*) desc, c.path, f.error_class;
end
$$;
