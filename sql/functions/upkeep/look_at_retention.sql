-- look_at_retention(): notes which campaigns have ended that the setting `keep` names, and when each is removed. Called by
-- keepers every few minutes.
--
-- Result: how many have a date.
-- A campaign with `keep` and tasks of its own is removed with all below it. If it has `keep` and no tasks, it stays, and
-- each campaign directly below is removed as a whole, unless that has a `keep` itself. A longer `keep` anywhere below
-- counts. A campaign that was never looked at counts as ended when its last attempt can have ended, as `usage` has it. Its
-- end is anew when its counts have changed since, and when it or one above it or below it was opened or restored, or
-- seeded. A date is announced a day before at least, also if `keep` was made shorter.
--
-- Goes through the counters of these campaigns, whatever the number of tasks. Locks: the rows that change.
-- Index: campaign_keep, campaign_archive_first, campaign_parent, counter_pkey, subtotal_pkey, retention_pkey, usage_pkey.
-- @roles upkeep
-- @plan custom no-jit
create or replace function taskq.look_at_retention()
returns integer
language plpgsql
as $$
declare
    v_now constant timestamptz := clock_timestamp();
    v_found integer;
begin
    if not exists (select from taskq.campaign c where c.keep is not null) then
        delete from taskq.retention r where r.reopened_at is null or r.reopened_at < v_now - interval '2 days';
        update taskq.retention r set due_at = null where r.due_at is not null;
        return 0;
    end if;
    with fresh as (
        select d.campaign_id, sum(d.done) as done, sum(d.failed) as failed, sum(d.cancelled) as cancelled,
               sum(d.failures) + sum(d.losses) as failures,
               sum(d.waiting) + sum(d.delayed) + sum(d.working) as unfinished
          from taskq.unfolded() d
         group by d.campaign_id
    ), below as (
        select a.campaign_id, sum(f.done) as done, sum(f.failed) as failed, sum(f.cancelled) as cancelled,
               sum(f.failures) as failures, sum(f.unfinished) as unfinished
          from fresh f
          join taskq.campaign c on c.campaign_id = f.campaign_id
         cross join lateral unnest(c.lineage) as a (campaign_id)
         group by a.campaign_id
    ), removed as (
        select a.campaign_id, sum(r.done) as done, sum(r.failed) as failed, sum(r.failures) as failures
          from taskq.removed_sum r
          join taskq.campaign c on c.campaign_id = r.campaign_id
         cross join lateral unnest(c.lineage) as a (campaign_id)
         group by a.campaign_id
    ), holder as (
        select c.campaign_id, c.lineage, c.keep,
               n.waiting + n.delayed + n.working + n.done + n.failed + n.cancelled
               + coalesce(f.unfinished + f.done + f.failed + f.cancelled, 0) > 0 as has_tasks
          from taskq.campaign c
          join taskq.counter n on n.campaign_id = c.campaign_id
          left join fresh f on f.campaign_id = c.campaign_id
         where c.keep is not null
    ), longest as (
        select a.campaign_id, max(h.keep) as keep
          from holder h
         cross join lateral unnest(h.lineage) as a (campaign_id)
         group by a.campaign_id
    ), archived as (
        select distinct a.campaign_id
          from taskq.campaign c
         cross join lateral unnest(c.lineage) as a (campaign_id)
         where c.archive_first
    ), reopened as (
        select a.campaign_id, max(r.reopened_at) as at
          from taskq.retention r
          join taskq.campaign c on c.campaign_id = r.campaign_id
         cross join lateral unnest(c.lineage) as a (campaign_id)
         where r.reopened_at is not null
         group by a.campaign_id
    ), unit as (
        select h.campaign_id, h.keep from holder h where h.has_tasks
         union all
        select c.campaign_id, h.keep
          from holder h
          join taskq.campaign c on c.parent_id = h.campaign_id
         where not h.has_tasks
           and c.keep is null
    ), counted as (
        select u.campaign_id, c.path, c.created_at, c.seeded_at, greatest(u.keep, l.keep) as keep,
               a.campaign_id is not null
               or exists (
                   select
                     from unnest(c.lineage) as p (campaign_id)
                     join taskq.campaign o on o.campaign_id = p.campaign_id
                    where o.archive_first) as archive_first,
               n.waiting + n.delayed + n.working + s.waiting + s.delayed + s.working
               + coalesce(b.unfinished, 0) as unfinished,
               n.done + n.failed + n.cancelled + s.done + s.failed + s.cancelled
               + coalesce(b.done + b.failed + b.cancelled, 0) as ended,
               format('%s %s %s',
                      n.done + s.done + coalesce(b.done, 0) + coalesce(m.done, 0),
                      n.failed + s.failed + coalesce(b.failed, 0) + coalesce(m.failed, 0),
                      n.failures + n.losses + s.failures + s.losses + coalesce(b.failures, 0)
                      + coalesce(m.failures, 0)) as seen,
               greatest(o.at, (
                   select max(r.reopened_at)
                     from unnest(c.lineage) as p (campaign_id)
                     join taskq.retention r on r.campaign_id = p.campaign_id)) as reopened_at
          from unit u
          join taskq.campaign c on c.campaign_id = u.campaign_id
          join taskq.counter n on n.campaign_id = u.campaign_id
          join taskq.subtotal s on s.campaign_id = u.campaign_id
          left join below b on b.campaign_id = u.campaign_id
          left join removed m on m.campaign_id = u.campaign_id
          left join longest l on l.campaign_id = u.campaign_id
          left join archived a on a.campaign_id = u.campaign_id
          left join reopened o on o.campaign_id = u.campaign_id
         where c.path <> '/'
    ), judged as (
        select c.campaign_id, c.keep, c.archive_first, c.seen, r.due_at as was_due,
               case when c.unfinished > 0 or c.ended = 0 then null
                    else greatest(
                             case when r.ended_at is not null and r.seen = c.seen then r.ended_at
                                  when r.campaign_id is not null and r.seen <> '' then v_now
                                  when (select s.until from taskq.summed s where s.only_one)
                                       < v_now - interval '1 hour' then v_now
                                  else least(
                                           v_now,
                                           greatest(
                                               c.created_at,
                                               (select max(u.since + ('1 ' || u.grain)::interval)
                                                  from taskq.usage u
                                                 where u.path = c.path
                                                    or u.path > c.path || '/' and u.path < c.path || '0')))
                             end,
                             c.seeded_at, c.reopened_at)
               end as ended_at
          from counted c
          left join taskq.retention r on r.campaign_id = c.campaign_id
    ), dated as (
        select j.campaign_id, j.keep, j.archive_first, j.seen, j.ended_at,
               case when j.ended_at is not null
                    then greatest(
                             j.ended_at + make_interval(secs => j.keep),
                             least(j.was_due, v_now + interval '1 day'))
               end as due_at
          from judged j
    ), stored as (
        insert into taskq.retention as r (campaign_id, ended_at, seen, keep_s, archive_first, due_at)
        select d.campaign_id, d.ended_at, d.seen, d.keep, d.archive_first, d.due_at
          from dated d
         order by d.campaign_id
            on conflict (campaign_id) do update
           set ended_at = excluded.ended_at,
               seen = excluded.seen,
               keep_s = excluded.keep_s,
               archive_first = excluded.archive_first,
               due_at = excluded.due_at,
               archiving_until = case when r.ended_at = excluded.ended_at then r.archiving_until end
         where (r.ended_at, r.seen, r.keep_s, r.archive_first, r.due_at)
               is distinct from
               (excluded.ended_at, excluded.seen, excluded.keep_s, excluded.archive_first, excluded.due_at)
    ), gone as (
        delete from taskq.retention r
         where not exists (select from dated d where d.campaign_id = r.campaign_id)
           and (r.reopened_at is null or r.reopened_at < v_now - interval '2 days')
    ), undated as (
        update taskq.retention r
           set due_at = null, ended_at = null, seen = ''
         where not exists (select from dated d where d.campaign_id = r.campaign_id)
           and r.reopened_at >= v_now - interval '2 days'
           and r.seen <> ''
    )
    select count(d.due_at) into v_found from dated d;
    return v_found;
end
$$;
