-- hedges(path, below, most): how many tasks of a campaign have had a second attempt, and which of them run
-- again.
--
-- below: whether the campaigns below it count too.
-- hedged: how many tasks were hedged since the campaigns exist, see hedge_task().
-- running: how many of these run again; it looks at the first 10,000 open sessions and 10,000 tasks there.
-- longest: at most `most` of these, whose first attempts began first, as objects: campaign, key, host and
--     run_s of the running attempt, first_host and first_run_s of the hedged one. Only its agent knows
--     whether the hedged one still runs.
-- Error TQ404: no such campaign.
--
-- Reads no task where none was hedged. An index of hedged tasks would cost each report something, so there is
-- none; a task that runs again has a row of its own, which is found by its session.
-- Index: campaign_path_key, campaign_hedged, session_open, task_working, attempt_pkey, spec_pkey, campaign_pkey, session_pkey.
-- @roles reader
-- @standby yes
-- @gateway manager
-- @plan generic by-key
create or replace function taskq.hedges(
    p_path text,
    p_below boolean,
    p_most integer,
    out hedged bigint,
    out running bigint,
    out longest jsonb
)
language plpgsql stable
as $$
declare
    v_looked_at constant integer := 10000;
    v_now constant timestamptz := clock_timestamp();
    v_campaigns bigint[];
begin
    perform taskq.campaign_id(p_path);
    select coalesce(sum(c.hedged), 0), array_agg(c.campaign_id)
      into hedged, v_campaigns
      from taskq.subtree(p_path) c
     where c.hedged > 0
       and (p_below or c.path = p_path);
    running := 0;
    longest := '[]';
    if v_campaigns is null then
        return;
    end if;
    with again as materialized (
        select w.campaign_id, w.task_id, w.host, w.claimed_at, a.session_id as first_session,
               a.claimed_at as first_at
          from (
              select t.campaign_id, t.task_id, t.claimed_at, s.host
                from (
                    select s.session_id, s.host
                      from taskq.session s
                     where s.ended_at is null
                     order by s.session_id
                     limit v_looked_at
                ) s
               cross join lateral (
                   select t.campaign_id, t.task_id, t.claimed_at
                     from taskq.task t
                    where t.session_id = s.session_id
                      and t.status = 'working'
                   offset 0
               ) t
               where t.campaign_id = any (v_campaigns)
               limit v_looked_at
          ) w
         cross join lateral (
             select a.session_id, a.claimed_at
               from taskq.attempt a
              where a.campaign_id = w.campaign_id
                and a.task_id = w.task_id
                and a.outcome::text = 'hedged'
              limit 1
         ) a
    )
    select (select count(*) from again),
           coalesce(
               jsonb_agg(
                   jsonb_build_object(
                       'campaign', c.path, 'key', k.key, 'host', l.host,
                       'run_s', extract(epoch from v_now - l.claimed_at),
                       'first_host', coalesce(f.host, ''),
                       'first_run_s', extract(epoch from v_now - l.first_at))
                   order by l.first_at, l.task_id),
               '[]')
      into running, longest
      from (select n.* from again n order by n.first_at, n.task_id limit p_most) l
      join taskq.campaign c on c.campaign_id = l.campaign_id
      join taskq.spec k on (k.campaign_id, k.task_id) = (l.campaign_id, l.task_id)
      left join taskq.session f on f.session_id = l.first_session;
end
$$;
