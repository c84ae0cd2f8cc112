-- ended_between(since, until): sums of the attempts that ended from `since` on, and before `until`. A part of
-- sum_ends(); not for clients.
--
-- Reads the pages that may have such attempts. Index: attempt_ended.
-- @plan by-pages
create or replace function taskq.ended_between(p_since timestamptz, p_until timestamptz)
returns taskq.ends[]
language plpgsql stable
as $$
begin
    return array(
        select (e.campaign_id, e.session_id, e.hour, e.outcome, count(*), taskq.total(e.run_ms))::taskq.ends
          from (
              select a.campaign_id, a.session_id, date_trunc('hour', a.ended_at, 'UTC') as hour,
                     taskq.end_of(a.outcome) as outcome,
                     taskq.used_ms(a.phases, a.claimed_at, a.ended_at) as run_ms
                from taskq.attempt a
               where a.ended_at >= p_since
                 and a.ended_at < p_until
          ) e
         group by e.campaign_id, e.session_id, e.hour, e.outcome);
end
$$;
