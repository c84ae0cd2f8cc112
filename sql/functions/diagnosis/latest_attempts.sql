-- latest_attempts(path, most): a sample of the latest attempts at and below a path, in groups of one campaign,
-- session, outcome, class of error, and whether they are outdated; see attempt_sample().
--
-- campaign: its path. slots: of the session. within: whether the session serves nothing outside the path.
-- tasks: of how many tasks. run_s: how long they ran, in all; logs, squares: sums of the natural logarithms
--     of their run times, and of the squares of these. payload_s (like run_s), first_at (the first claim), last_at
--     (the last end): only of attempts from the time for which the sample has all attempts of all campaigns; null:
--     none. lease_s: of the session.
-- Error TQ404: no such campaign.
--
-- Index: those of attempt_sample(), session_pkey, campaign_pkey.
-- @roles reader
-- @standby yes
-- @gateway manager
-- @plan generic by-key
create or replace function taskq.latest_attempts(p_path text, p_most integer)
returns table (
    campaign text,
    session_id bigint,
    host text,
    site text,
    slots integer,
    within boolean,
    outcome text,
    error_class text,
    outdated boolean,
    attempts bigint,
    tasks bigint,
    run_s double precision,
    logs double precision,
    squares double precision,
    payload_s double precision,
    first_at timestamptz,
    last_at timestamptz,
    lease_s double precision
)
language plpgsql stable
as $$
begin
    return query
        with sample as materialized (
            select * from taskq.attempt_sample(p_path, p_most)
        ), complete as materialized (
            select max(c.since) as since
              from (
                  select min(s.claimed_at) as since
                    from sample s
                   group by s.campaign_id
                  having bool_or(s.cut)
              ) c
        ), grouped as (
            select s.campaign_id, s.session_id, s.outcome, s.error_class, s.outdated, count(*) as attempts,
                   count(distinct s.task_id) as tasks, sum(s.run_s) as run_s, sum(ln(s.run_s)) as logs,
                   sum(ln(s.run_s) ^ 2) as squares, sum(s.run_s) filter (where s.recent) as payload_s,
                   min(s.claimed_at) filter (where s.recent) as first_at,
                   max(s.ended_at) filter (where s.recent) as last_at
              from (
                  select s.*, (s.claimed_at >= c.since) is not false as recent
                    from sample s, complete c
              ) s
             group by s.campaign_id, s.session_id, s.outcome, s.error_class, s.outdated
        )
        select c.path, g.session_id, n.host, n.site, n.slots,
               taskq.at_or_below(n.scope, p_path),
               g.outcome, g.error_class, g.outdated, g.attempts, g.tasks, g.run_s, g.logs, g.squares, g.payload_s,
               g.first_at, g.last_at, n.lease_s
          from grouped g
         cross join lateral taskq.campaign_of(g.campaign_id) c
         cross join lateral (
             select n.host, n.site, n.slots, n.lease_s, s.path as scope
               from taskq.session n
               join taskq.campaign s on s.campaign_id = n.campaign_id
              where n.session_id = g.session_id
             offset 0
         ) n
         order by c.path, g.session_id, g.outcome, g.error_class, g.outdated;
end
$$;
