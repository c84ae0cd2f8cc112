-- usual_run(campaign, most): the mean run time of a campaign's latest attempts, from claim to end.
--
-- attempts: how many of them were done or failed. mean_s: seconds from claim to end, on average; null:
--     there are none.
-- Reads `most` attempts, those of the tasks that were seeded last among those with an attempt: claims go
-- in that order. Plans: see tasks(). Index: attempt_pkey.
-- @roles reader
-- @standby yes
-- @gateway manager
-- @plan generic by-key
create or replace function taskq.usual_run(
    p_campaign bigint,
    p_most integer,
    out attempts bigint,
    out mean_s double precision
)
language plpgsql stable
as $$
begin
    select count(*), avg(extract(epoch from r.ended_at - r.claimed_at))
      into attempts, mean_s
      from (
          select a.outcome, a.claimed_at, a.ended_at
            from taskq.attempt a
           where a.campaign_id = p_campaign
           order by a.campaign_id desc, a.task_id desc, a.attempt desc
           limit p_most
      ) r
     where r.outcome in ('done', 'failed');
end
$$;
