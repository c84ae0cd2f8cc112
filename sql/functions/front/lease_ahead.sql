-- lease_ahead(epoch, campaign, most, before): claims waiting tasks for the pool: they work for session 0,
-- which no agent has; the agent that pops their entry from a Redis list holds the lease. Called by the
-- refiller, which pushes the entries.
--
-- epoch: it acts only if this is the current one. most: tasks, 0 to 1000; fewer if payloads are large:
--     together at most 4 MiB. before: null: the next ones in order; a rank: only tasks of a smaller rank
--     (rank is -priority).
-- entries: in order; null: nothing was leased, because nothing waits, the campaign is not for the front, or
--     the epoch is over. rank: their largest rank. A task whose entry would be longer than 1 MiB, which a popping
--     gateway would drop, is left waiting for claims in PostgreSQL; so is one that has failed and may not go to every
--     host, see pick_again().
-- Error TQ400: most is out of range.
--
-- An entry is 32 hex digits and a JSON array: [campaign, revision, task, attempt, leased_ms, key,
-- payload], leased_ms in milliseconds since 1970. Let d be the 64 hex digits of HMAC-SHA256 over the
-- array, keyed with the secret of the epoch. The first half of d precedes the array and
-- authenticates it; the lease id is leased_ms and part of the second half, as a UUID of version 8
-- (RFC 9562: of one's own kind), which distinguishes leases of the pool from those that agents draw. So write access
-- to Redis is not enough to make an entry, and read access shows no lease.
--
-- A task that no agent's heartbeat names within the front's pool_s waits again, see expire_ahead(); a report
-- may come before that.
--
-- Locks: the rows of the tasks, skipping locked ones; shared, the lock by which expire_ahead() sees that something is
-- being leased. Index: task_waiting, task_pkey.
-- @roles upkeep
-- @plan generic by-key
create or replace function taskq.lease_ahead(
    p_epoch bigint,
    p_campaign bigint,
    p_most integer,
    p_before integer default null,
    out entries text[],
    out rank integer
)
language plpgsql
as $$
declare
    -- As in taskq/front/scripts/pop.lua, without the digits before the array.
    v_most_bytes constant integer := 1048576 - 32;
    v_secret bytea;
    v_inner bytea;
    v_outer bytea;
    v_revision integer;
    v_hint bigint[];
    v_picked record;
    v_again record;
    v_tasks bigint[] := '{}';
    v_ranks bigint[] := '{}';
    v_now timestamptz;
    v_now_ms bigint;
    v_time text;
begin
    perform taskq.demand_read_committed();
    if coalesce(p_most not between 0 and 1000, true) then
        raise exception 'most must be 0 to 1000 tasks' using errcode = 'TQ400';
    end if;
    select f.secret into v_secret
      from taskq.front f
     where f.epoch = p_epoch
       and f.epoch > 0;
    if not found or not taskq.is_frontable(p_campaign) then
        return;
    end if;
    -- Before the clock is read.
    perform pg_advisory_xact_lock_shared(hashtext('taskq.lease_ahead'), 0);
    select c.revision, least(p_most, 4194304 / greatest(c.payload_bytes, 1))
      into v_revision, p_most
      from taskq.campaign c
     where c.campaign_id = p_campaign;
    v_hint := taskq.position_hint(p_campaign);
    if p_before is null and (taskq.is_fresh(v_hint) is not true or v_hint[taskq.hint('again')] = 1) then
        v_again := taskq.pick_again(p_campaign, null, true, p_most => p_most);
        v_tasks := v_again.tasks;
        v_ranks := v_again.ranks;
    end if;
    v_picked := taskq.pick(p_campaign, p_most - cardinality(v_tasks), p_before, true);
    v_tasks := v_tasks || v_picked.tasks;
    v_ranks := v_ranks || v_picked.ranks;
    if p_before is null and cardinality(v_tasks) < p_most then
        v_again := taskq.pick_again(
            p_campaign, null, false, v_tasks, p_most => p_most - cardinality(v_tasks));
        v_tasks := v_tasks || v_again.tasks;
        v_ranks := v_ranks || v_again.ranks;
    end if;
    if v_tasks = '{}' then
        return;
    end if;

    v_now := clock_timestamp();
    v_now_ms := extract(epoch from v_now) * 1000;
    v_time := lpad(to_hex(v_now_ms), 12, '0');
    v_inner := taskq.hmac_pad(v_secret, 54);
    v_outer := taskq.hmac_pad(v_secret, 92);
    with entry as materialized (
        select p.task_id, p.rank, p.ord,
               json_build_array(
                   p_campaign, v_revision, p.task_id, coalesce(t.attempt, 0) + 1, v_now_ms, s.key,
                   s.payload)::text
                   as body
          from unnest(v_tasks, v_ranks) with ordinality as p (task_id, rank, ord)
          left join lateral taskq.task_of(p_campaign, p.task_id) t on true
          cross join lateral taskq.spec_of(p_campaign, p.task_id) s
    ), sealed as materialized (
        select e.*,
               encode(sha256(v_outer || sha256(v_inner || convert_to(e.body, 'UTF8'))), 'hex')
                   as digest
          from entry e
         where octet_length(e.body) <= v_most_bytes
    ), moved as (
        insert into taskq.task as t (
               campaign_id, task_id, lease_id, session_id, claimed_at, status, attempt, priority)
        select p_campaign, e.task_id,
               (v_time || '8' || substr(e.digest, 33, 3) || '8' || substr(e.digest, 36, 15))::uuid,
               0, v_now, 'working', 1, -e.rank
          from sealed e
            on conflict (campaign_id, task_id) do update
           set status = 'working',
               lease_id = excluded.lease_id,
               session_id = 0,
               claimed_at = v_now,
               attempt = t.attempt + 1
    ), left_out as (
        -- What was in a span must not get lost.
        insert into taskq.task (campaign_id, task_id, priority)
        select p_campaign, e.task_id, -e.rank
          from entry e
         where octet_length(e.body) > v_most_bytes
            on conflict (campaign_id, task_id) do nothing
    ), counted as (
        insert into taskq.delta (campaign_id, waiting, working)
        select p_campaign, -count(*), count(*)
          from sealed
        having count(*) > 0
    )
    select array_agg(left(e.digest, 32) || e.body order by e.ord), v_ranks[max(e.ord)]
      into entries, rank
      from sealed e;
end
$$;
