-- failing_tasks(path, most): the outcome of tasks with a failed, lost or refused attempt, by campaign and
-- class of error, as far as a sample of the latest attempts shows; see attempt_sample().
--
-- campaign: its path. attempts: how many ended so; tasks: of how many tasks. again: tasks to which it
--     happened on several hosts; then_done: of the other tasks, those done by an attempt on another host.
--     last_tries: tasks that came to the last attempt the campaign allows; last_done: of these, those that it did.
--     memory, time_limit_s, max_attempts, output_bytes: what the campaign allows now. memory_learns: whether it learns
--     memory.
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
    time_limit_s double precision,
    max_attempts integer,
    output_bytes integer,
    memory_learns boolean,
    last_tries bigint,
    last_done bigint
)
language plpgsql stable
as $$
begin
    return query
        with sample as materialized (
            select s.campaign_id, s.task_id, s.session_id, s.outcome, s.outdated,
                   coalesce(s.error_class, '') as error_class
              from taskq.attempt_sample(p_path, p_most) s
        ), failing as materialized (
            -- Most tasks have only succeeded. `is true` keeps the hash table, see note_events().
            select s.*
              from sample s
             where (s.task_id in (
                        select f.task_id
                          from sample f
                         where f.outcome in ('failed', 'lost', 'refused')
                           and not f.outdated)) is true
        ), placed as (
            select s.*, n.host,
                   array_agg(n.host) filter (where s.outcome = 'done')
                       over (partition by s.campaign_id, s.task_id) as done_on,
                   count(*) filter (where s.outcome = 'failed')
                       over (partition by s.campaign_id, s.task_id) as failures,
                   bool_or(s.outcome = 'done') over (partition by s.campaign_id, s.task_id) as is_done
              from failing s
             cross join lateral taskq.session_of(s.session_id) n
        ), fates as (
            select p.campaign_id, p.error_class, count(*) as attempts,
                   count(distinct p.host) > 1 as again,
                   not max(p.done_on) <@ array_agg(p.host) as then_done,
                   max(p.failures) as failures, bool_or(p.is_done) as is_done
              from placed p
             where p.outcome in ('failed', 'lost', 'refused')
               and not p.outdated
             group by p.campaign_id, p.task_id, p.error_class
        )
        select c.path, f.error_class, taskq.total(f.attempts), count(*), count(*) filter (where f.again),
               count(*) filter (where f.then_done and not f.again), c.memory, c.time_limit_s,
               c.max_attempts, c.output_bytes, c.memory_learns,
               count(*) filter (where f.failures >= c.max_attempts
                                   or f.failures = c.max_attempts - 1 and f.is_done),
               count(*) filter (where f.failures = c.max_attempts - 1 and f.is_done)
          from fates f
         cross join lateral taskq.campaign_of(f.campaign_id) c
         group by c.path, f.error_class, c.memory, c.time_limit_s, c.max_attempts, c.output_bytes,
                  c.memory_learns
         order by count(*) desc, c.path, f.error_class;
end
$$;
