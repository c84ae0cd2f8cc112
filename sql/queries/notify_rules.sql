-- All notification rules, or one, ordered by name, with the number of their events. reached: whether a keeper
-- that was heard within the last minute can send its messages.
-- Index: notify_event_rule; rules and senders are few.
-- @roles reader
-- @standby no
-- @gateway no
select r.name, r.path, r.events, r.target, r.after_s, r.login, r.created_at, r.attempts, r.trouble,
       r.sent_at, r.sent_from, n.waiting, n.given_up, n.given_up_at,
       case when r.attempts > 0
            then greatest(0, extract(epoch from r.retry_at - clock_timestamp())) end::double precision
           as retry_in_s,
       exists (
           select from taskq.notify_sender s
            where s.until > clock_timestamp()
              and r.reach = any (s.reaches)) as reached
  from taskq.notify_rule r
 cross join lateral (
       select count(*) filter (where e.status = 'waiting') as waiting,
              count(*) filter (where e.status = 'given up') as given_up,
              max(e.ended_at) filter (where e.status = 'given up') as given_up_at
         from taskq.notify_event e
        where e.rule = r.name) n
 where r.name = coalesce(%(rule)s::text, r.name)
 order by r.name
