-- attempt_sample(path, most, with_results): a sample of at most `most` of the latest attempts at and below a path. A
-- part of latest_attempts(), latest_results() and failing_tasks(); not for clients.
--
-- Takes the 50 campaigns in which most tasks run, of a large queue those of notable_ids(), and the same number of
-- attempts from each; what small campaigns leave goes to larger ones. In each campaign it takes attempts of the tasks
-- that were seeded last: claims go in that order. No index has attempts by session, so a host that does little has few
-- in the sample.
-- outcome: as in `attempt`, or refused. outdated: claimed before the campaign or an input was last changed, before it
--     was opened again, or before a ban of the host or site there ended: failures that were repaired since accuse nobody.
-- run_s: see ran_s(); at least 1 ms.
-- cut: whether the campaign has more attempts.
-- result: only if asked for, of first attempts that are done; JSON's null if there is none; null: it is above 8 kB.
-- Error TQ404: no such campaign.
--
-- Reads `most` attempts, however many there are, and their sessions if a ban has ended; else it costs as much as
-- notable_ids(). Plans: see tasks(). Index: attempt_pkey, refused_pkey, session_pkey, ban_pkey, counter_pkey, delta_xid,
-- and those of notable_ids().
-- @plan generic by-key
create or replace function taskq.attempt_sample(
    p_path text,
    p_most integer,
    p_with_results boolean default false
)
returns table (
    campaign_id bigint,
    task_id bigint,
    session_id bigint,
    claimed_at timestamptz,
    ended_at timestamptz,
    error_class text,
    outcome text,
    outdated boolean,
    run_s double precision,
    cut boolean,
    result jsonb
)
language plpgsql stable
as $$
declare
    v_campaigns constant integer := 50;
    v_ids bigint[] := taskq.notable_ids(p_path);
    v_chosen bigint[];
    v_left integer := p_most;
    v_each integer;
    v_since timestamptz;
    v_path text;
    v_lifted constant boolean := exists (select from taskq.ban b where b.until <= statement_timestamp());
    v_read integer;
begin
    if v_ids is null then
        v_ids := array(select c.campaign_id from taskq.subtree(p_path) c);
    end if;
    -- The smallest first: later ones may take what it leaves.
    v_chosen := array(
        select k.campaign_id
          from (
              select p.campaign_id, taskq.total(p.attempts) as attempts, taskq.total(p.working) as working
                from (
                    select n.campaign_id, n.working, n.done + n.failures + n.losses as attempts
                      from unnest(v_ids) as u (campaign_id)
                     cross join lateral taskq.counter_of(u.campaign_id) n
                     union all
                    select f.campaign_id, f.working, f.done + f.failures + f.losses
                      from taskq.moved_counts() f
                     where f.campaign_id = any (v_ids)
                ) p
               group by p.campaign_id
              having taskq.total(p.attempts) > 0
                  or exists (select from taskq.refused r where r.campaign_id = p.campaign_id offset 0)
               order by 3 desc, 2 desc, 1
               limit v_campaigns
          ) k
         order by k.attempts, k.campaign_id);
    for i in 1 .. cardinality(v_chosen) loop
        v_each := v_left / (cardinality(v_chosen) - i + 1);
        v_since := (select r.since from taskq.refused r where r.campaign_id = v_chosen[i]);
        v_path := (select c.path from taskq.campaign c where c.campaign_id = v_chosen[i]);
        return query
            select a.campaign_id, a.task_id, a.session_id, a.claimed_at, a.ended_at, a.error_class,
                   case when a.refused then 'refused' else a.outcome::text end,
                   (a.claimed_at < greatest(v_since, b.until)) is true,
                   greatest(0.001, taskq.ran_s(a.phases, a.claimed_at, a.ended_at)),
                   count(*) over () >= v_each,
                   case when p_with_results
                         and a.attempt = 1
                         and a.outcome = 'done'
                         and coalesce(pg_column_size(a.result), 0) <= 8192
                        then coalesce(a.result, 'null') end
              from (
                  select a.campaign_id, a.task_id, a.attempt, a.session_id, a.claimed_at, a.ended_at,
                         a.error_class, a.refused, a.outcome, a.phases, a.result
                    from taskq.attempt a
                   where a.campaign_id = v_chosen[i]
                   order by a.campaign_id desc, a.task_id desc, a.attempt desc
                   limit v_each
              ) a
             cross join lateral (
                 select max(b.until) as until
                   from taskq.session n
                  cross join lateral (values ('host', n.host), ('site', n.site)) as p (kind, name)
                   join taskq.ban b on b.kind = p.kind
                                   and b.name = p.name
                                   and taskq.at_or_below(v_path, b.path)
                                   and b.until <= statement_timestamp()
                  where n.session_id = a.session_id
                    and v_lifted
             ) b;
        get diagnostics v_read = row_count;
        v_left := v_left - v_read;
    end loop;
end
$$;
