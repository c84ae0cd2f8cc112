-- pause_refused(): pauses the campaigns that nobody can run. A part of keep(), which calls it in each
-- round; not for clients.
--
-- A campaign is paused when agents have refused it, nobody has succeeded since, and either
--   * they were on three hosts or more, and no other host has tasks of it in hand; or
--   * it lacks an input that its program takes (no-such-input): no host can change that; or
--   * one of them has refused it three times in a row, and every host whose agents serve it is among those
--     that refuse: this covers a farm of one machine.
-- A success cancels all refusals before it: then the hosts are at fault, and leave the campaign to others.
-- Result: the paths of those that were paused; null: none. Why they are is in paused_why.
--
-- Only campaigns that were refused within the last twenty seconds are looked at: to the others nothing
-- has happened. Agents wait longer and longer before they try again, so there are few. What is older
-- than a day is dropped.
--
-- Locks: the rows of refusals; of campaigns that are paused, skipping locked ones: the next
-- round comes soon. Index: refusal_last_at, refusal_pkey, counter_pkey, delta_xid, session_open,
-- task_working.
-- @plan generic by-key
create or replace function taskq.pause_refused()
returns text[]
language plpgsql
as $$
declare
    v_hosts constant integer := 3;
    v_times constant integer := 3;
    v_now constant timestamptz := clock_timestamp();
    v_one record;
    v_seen record;
    v_paused text[];
begin
    delete from taskq.refusal r where r.last_at < v_now - interval '1 day';
    for v_one in
        select c.campaign_id, c.path, c.lineage, c.requires, r.done as done_before,
               taskq.done_count(c.campaign_id) as done
          from (select distinct r.campaign_id
                  from taskq.refusal r
                 where r.last_at > v_now - interval '20 s') f
         cross join lateral taskq.campaign_of(f.campaign_id) c
         cross join lateral (
              select r.done from taskq.refused r where r.campaign_id = f.campaign_id offset 0
         ) r
         where c.status = 'open'
         order by c.campaign_id
    loop
        if v_one.done is distinct from v_one.done_before then
            update taskq.refused r set done = v_one.done where r.campaign_id = v_one.campaign_id;
            if v_one.done_before is not null then
                update taskq.refusal r set times = 0 where r.campaign_id = v_one.campaign_id;
            end if;
            continue;  -- nobody knows yet whether somebody succeeds
        end if;
        select array_agg(distinct h.host) as hosts, max(h.times) as times,
               (array_agg(h.error_class order by h.last_at desc))[1] as error_class,
               (array_agg(h.error order by h.last_at desc))[1] as error
          into v_seen
          from (
              select r.times, r.last_at, r.error_class, r.error,
                     (select s.host from taskq.session s where s.session_id = r.session_id) as host
                from taskq.refusal r
               where r.campaign_id = v_one.campaign_id
                 and r.times > 0
          ) h;
        continue when not coalesce(
            v_seen.error_class = 'no-such-input'
            or cardinality(v_seen.hosts) >= v_hosts
            and not exists (
                select from taskq.session s
                 where s.ended_at is null
                   and s.host <> all (v_seen.hosts)
                   and taskq.has_work(s.session_id, v_one.campaign_id))
            or v_seen.times >= v_times
            and not exists (
                select from taskq.session s
                 where s.ended_at is null
                   and not s.drain
                   and s.campaign_id = any (v_one.lineage)
                   and s.host <> all (v_seen.hosts)
                   and taskq.offered(v_one.requires, s.offers)), false);
        perform
           from taskq.campaign c
          where c.campaign_id = v_one.campaign_id
            and c.status = 'open'
            for no key update skip locked;
        if found then
            update taskq.campaign c
               set status = 'paused',
                   paused_why = format(
                       'it cannot be run on %s: %s: %s',
                       case when cardinality(v_seen.hosts) = 1 then v_seen.hosts[1]
                            else format('%s hosts (%s%s)', cardinality(v_seen.hosts),
                                        array_to_string(v_seen.hosts[1:5], ', '),
                                        case when cardinality(v_seen.hosts) > 5 then ', ...'
                                             else '' end) end,
                       left(v_seen.error_class, 100), left(v_seen.error, 500))
             where c.campaign_id = v_one.campaign_id;
            v_paused := v_paused || v_one.path;
        end if;
    end loop;
    return v_paused;
end
$$;
