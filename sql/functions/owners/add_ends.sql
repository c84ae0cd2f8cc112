-- add_ends(ends): adds sums of attempts to `usage` and `end_sum`; negative ones take away what was added before. A part
-- of sum_ends() and of what changes or removes ended attempts; not for clients. The caller has locked the row of
-- `summed`.
--
-- Locks and index: those of add_usage() and add_end_sums().
create or replace function taskq.add_ends(p_ends taskq.ends[])
returns void
language plpgsql
as $$
begin
    perform taskq.add_usage(p_ends);
    perform taskq.add_end_sums(
        '10 min',
        array(
            select (e.since, '10 min', e.campaign_id, coalesce(n.host, ''), coalesce(n.site, ''),
                    coalesce(n.release, ''), e.outcome, e.sort, taskq.total(e.attempts), taskq.total(e.run_ms),
                    taskq.total(e.run_ms * coalesce(taskq.cores_of(n.offers), 1)), sum(e.logs), sum(e.squares),
                    taskq.total(e.numbers), sum(e.number_sum), sum(e.number_squares), min(e.first_task),
                    max(e.last_task), min(e.first_at), max(e.last_at))::taskq.end_sum
              from unnest(p_ends) as e
              left join lateral taskq.session_of(e.session_id) n on true
             group by e.since, e.campaign_id, n.host, n.site, n.release, e.outcome, e.sort));
end
$$;
