-- overdue(path, most): the running attempts at and below a path that take far longer than others: more than five
-- times as long as nine of ten of their campaign's latest successes, and at least 60 s. The longest first, at most
-- `most`.
--
-- campaign: its path. usual_s: the seconds from its claim within which nine of ten successes have ended. limit_s: the
-- seconds after which an attempt is overdue.
-- Attempts of agents that cannot report do not count, see cannot_report(); nor those of silent ones, which may have
-- ended too; nor times in which the queue stood still.
-- Error TQ404: no such campaign.
--
-- Judges the 20 campaigns with most working tasks, if 20 successes of them are known; see slow_after(). If there is
-- one, goes through the open sessions, at most 10,000, with the 20 leases of each that are the oldest: no index has
-- the working tasks of a campaign. Index: those of counts() and slow_after(), session_open, task_working,
-- bundle_pkey, spec_pkey.
-- @roles reader
-- @standby yes
-- @gateway manager
-- @plan generic by-key
create or replace function taskq.overdue(p_path text, p_most integer)
returns table (
    campaign text,
    key text,
    host text,
    claimed_at timestamptz,
    run_s double precision,
    usual_s double precision,
    limit_s double precision
)
language plpgsql stable
as $$
declare
    v_now constant timestamptz := clock_timestamp();
    v_campaigns bigint[];
    v_usual double precision[];
    v_before timestamptz[];
begin
    select array_agg(u.campaign_id), array_agg(u.usual_s),
           array_agg(taskq.served_ago(v_now, greatest(60, 5 * u.usual_s)))
      into v_campaigns, v_usual, v_before
      from (
          select k.campaign_id, taskq.slow_after(k.campaign_id) / 2 as usual_s
            from (
                select c.campaign_id
                  from taskq.counts(p_path, null) c
                 where c.working > 0
                   and c.done >= 20
                 order by c.working desc, c.path
                 limit 20
            ) k
          offset 0
      ) u
     where u.usual_s is not null;
    if v_campaigns is null then
        return;
    end if;
    return query
        select c.path, s.key, w.host, w.claimed_at,
               taskq.served_s(w.claimed_at, v_now), w.usual_s, greatest(60, 5 * w.usual_s)
          from (
              select h.campaign_id, h.task_id, h.claimed_at, n.host, u.usual_s
                from (
                    select s.session_id, s.host
                      from taskq.session s
                     where s.ended_at is null
                       and s.heartbeat_at > v_now - make_interval(secs => s.lease_s / 2)
                       and not taskq.cannot_report(s.said)
                     order by s.session_id
                     limit 10000
                ) n
               cross join lateral (
                    (select t.campaign_id, t.task_id, t.claimed_at
                       from taskq.task t
                      where t.session_id = n.session_id
                        and t.status = 'working'
                      order by t.session_id, t.lease_id
                      limit 20)
                     union all
                    select b.campaign_id, k.task_id, b.claimed_at
                      from (
                          select b.campaign_id, b.tasks, b.claimed_at
                            from taskq.bundle b
                           where b.session_id = n.session_id
                           order by b.session_id, b.lease_id
                           limit 20
                      ) b
                     cross join lateral unnest(b.tasks) as k (task_id)
               ) h
               cross join lateral (
                    select v_usual[p.place] as usual_s, v_before[p.place] as before
                      from (select array_position(v_campaigns, h.campaign_id) as place) p
                    offset 0
               ) u
               where h.claimed_at < u.before
               order by h.claimed_at, h.task_id
               limit p_most
          ) w
         cross join lateral taskq.campaign_of(w.campaign_id) c
         cross join lateral taskq.spec_of(w.campaign_id, w.task_id) s
         order by w.claimed_at, w.task_id;
end
$$;
