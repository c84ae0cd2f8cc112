-- slow_after(campaign): the seconds from its claim after which an attempt is slow compared with others: twice
-- the time within which nine of ten of the campaign's latest successes had ended. Null: fewer than 20 are
-- known, or many tasks have one start: they wait for each other. Times in which the queue stood still do not count. A part of hedge(), which pins the settings; not
-- for clients.
--
-- Reads 400 attempts of the tasks that were seeded last among those with an attempt: claims go in that order.
-- `python -m benchmarks.hedging` compares such limits. Index: campaign_pkey, attempt_pkey.
create or replace function taskq.slow_after(p_campaign bigint)
returns double precision
language plpgsql stable
as $$
begin
    if exists (
        select from taskq.campaign c
         where c.campaign_id = p_campaign
           and c.handler -> 'batch' is not null
    ) then
        return null;
    end if;
    return (
        select 2 * percentile_disc(0.9) within group (
                   order by taskq.served_s(r.claimed_at, r.ended_at))
          from (
              select a.outcome, a.error_class, a.claimed_at, a.ended_at
                from taskq.attempt a
               where a.campaign_id = p_campaign
               order by a.campaign_id desc, a.task_id desc, a.attempt desc
               limit 400
          ) r
         where r.outcome::text = 'done'
           and r.error_class is null  -- a salvaged attempt was cut off, or slow itself
        having count(*) >= 20);
end
$$;
