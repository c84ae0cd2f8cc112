-- first_attempts(path, most): how the latest first attempts of tasks ended, by campaign, at and below a path; those
-- with most failures first, at most `most`.
--
-- campaign: its path. failures, done: first attempts that failed, and tasks that were done, since the campaign's
-- window began; see pause_failing(). A window begins again after five minutes if something fails, and counts for ten.
-- Error TQ404: no such campaign.
--
-- Reads no task and no attempt. Index: pulse_pkey, counter_pkey, campaign_pkey, delta_xid.
-- @roles reader
-- @standby yes
-- @gateway manager
-- @plan generic by-key
create or replace function taskq.first_attempts(p_path text, p_most integer)
returns table (campaign text, failures bigint, done bigint)
language plpgsql stable
as $$
declare
    v_top constant bigint := taskq.campaign_id(p_path);
    v_window constant interval := '10 min';
begin
    return query
        with fresh as materialized (
            select d.campaign_id, sum(d.done) as done, sum(d.first_failures) as failures
              from taskq.unfolded() d
             group by d.campaign_id
        ), recent as materialized (
            select p.campaign_id, n.done - p.done as done, n.first_failures - p.failures as failures
              from taskq.pulse p
             cross join lateral taskq.counter_of(p.campaign_id) n
             where p.since > clock_timestamp() - v_window
        )
        select c.path, (r.failures + coalesce(f.failures, 0))::bigint, (r.done + coalesce(f.done, 0))::bigint
          from recent r
         cross join lateral taskq.campaign_of(r.campaign_id) c
          left join fresh f on f.campaign_id = r.campaign_id
         where v_top = any (c.lineage)
           and r.failures + coalesce(f.failures, 0) > 0
         order by 2 desc, 1
         limit p_most;
end
$$;
