-- ended_between(since, until): sums of the attempts that ended from `since` on, and before `until`. A part of
-- sum_ends(); not for clients.
--
-- Reads the pages that may have such attempts. Index: attempt_ended, campaign_pkey.
-- @plan by-pages
create or replace function taskq.ended_between(p_since timestamptz, p_until timestamptz)
returns taskq.ends[]
language plpgsql stable
as $$
begin
    return array(
        select (e.campaign_id, e.session_id, e.since, e.outcome, e.sort, count(*), taskq.total(e.run_ms),
                sum(e.log_s), sum(e.log_s ^ 2), count(e.number), coalesce(sum(e.number), 0),
                coalesce(sum(e.number ^ 2), 0), min(e.task_id), max(e.task_id), min(e.ended_at),
                max(e.ended_at))::taskq.ends
          from (
              select a.campaign_id, a.session_id, taskq.ten_minutes(a.ended_at) as since, a.task_id, a.ended_at,
                     taskq.kind_of_end(a.outcome, a.refused) as outcome,
                     taskq.sort_of_end(a.outcome, a.error_class, a.result, k.field) as sort, r.run_ms,
                     taskq.log_s(r.run_ms) as log_s, taskq.ranking_number(a.outcome, a.result, k.field) as number
                from taskq.attempt a
                left join lateral (
                    select taskq.best_field(c.best) as field
                      from taskq.campaign c
                     where c.campaign_id = a.campaign_id
                    offset 0
                ) k on true
               cross join lateral (
                   select taskq.used_ms(a.phases, a.claimed_at, a.ended_at) as run_ms
                   offset 0
               ) r
               where a.ended_at >= p_since
                 and a.ended_at < p_until
          ) e
         group by e.campaign_id, e.session_id, e.since, e.outcome, e.sort);
end
$$;
