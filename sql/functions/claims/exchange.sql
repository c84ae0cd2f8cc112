-- exchange(campaign, reports, sessions, leases, wants): the one round trip: reports how attempts
-- ended, then claims, for one or several agents.
--
-- Parameters and results: see settle(), for which reports are JSON text here, and take(). Null stands for
-- no reports, for no claims. Atomic and idempotent: a repetition with the same arguments changes nothing
-- more. Error TQ400: arrays of different lengths, with a null in them, a session that claims twice, or an
-- isolation in which a repeated claim would not see the first one; a report beyond its limits, see
-- checked_reports().
--
-- Locks: those of settle() and take(), and an advisory lock for each claim, until the commit.
--
-- The settings leave one plan for each statement, whatever the statistics say of a table whose
-- rows change status all the time, and plan it once for each connection.
--
-- Every transaction that moves tasks appends one row of counts. At random, one of about a thousand
-- folds them, so that their number stays bounded even where no keeper runs.
-- @roles serving
-- @plan generic by-key
create or replace function taskq.exchange(
    p_campaign bigint,
    p_reports text,
    p_sessions bigint[],
    p_leases uuid[],
    p_wants integer[],
    out acks text[],
    out tasks json,
    out refused bigint[],
    out revision integer,
    out spent bigint[],
    out avoided bigint[]
)
language plpgsql
as $$
declare
    v_reports jsonb;
    v_settled record;
    v_taken record;
    v_ended integer := 0;
    v_waiting integer := 0;
    v_claimed integer := 0;
    v_all_done boolean := true;
begin
    if current_setting('transaction_isolation') <> 'read committed' then
        perform taskq.demand_read_committed();
    end if;
    if p_reports is not null then
        v_reports := case when taskq.is_gateway() then p_reports::jsonb
                          else taskq.checked_reports(p_reports) end;
        v_settled := taskq.settle(p_campaign, v_reports);
        acks := v_settled.acks;
        v_ended := v_settled.ended;
        v_waiting := v_settled.waiting;
        v_all_done := v_settled.done = v_ended;
    end if;

    if p_wants is not null then
        if (cardinality(p_sessions) = cardinality(p_wants)
            and cardinality(p_leases) = cardinality(p_wants)
            and array_position(p_sessions, null) is null
            and array_position(p_leases, null) is null
            and array_position(p_wants, null) is null) is not true
        then
            raise exception 'a claim needs a session, a lease and a number of tasks'
                using errcode = 'TQ400';
        end if;
        if cardinality(p_sessions) > 1 then  -- apart: a condition with a sub-select is a statement of its own
            if (select count(distinct c.session_id) < count(*)
                  from unnest(p_sessions) as c (session_id))
            then
                raise exception 'a session may claim only once in an exchange' using errcode = 'TQ400';
            end if;
        end if;
        -- A repeated claim waits for the first one, which is under way elsewhere, and gets the same answer.
        -- All callers lock in one order, so that they cannot deadlock. The lock is per session and lease id,
        -- so a session that uses another's lease id, even on purpose, delays nobody. All other advisory locks
        -- have two keys, so no lease id can collide with one.
        if cardinality(p_leases) > 1
           or not pg_try_advisory_xact_lock(uuid_hash_extended(p_leases[1], p_sessions[1]))
        then
            perform pg_advisory_xact_lock(l.claim)
               from (
                   select uuid_hash_extended(c.lease_id, c.session_id) as claim
                     from unnest(p_sessions, p_leases) as c (session_id, lease_id)
                    order by 1
                   offset 0
               ) l;
        end if;
        -- Tasks that came back just now wait as rows.
        if cardinality(p_wants) between 1 and 64 and 1 = all (p_wants) and v_waiting = 0 then
            v_taken := taskq.take_each(p_campaign, p_sessions, p_leases);
            tasks := v_taken.tasks;
            revision := v_taken.revision;
            v_claimed := cardinality(p_wants);
        end if;
        if tasks is null then
            v_taken := taskq.take(p_campaign, p_sessions, p_leases, p_wants, v_ended);
            tasks := v_taken.tasks;
            revision := v_taken.revision;
            refused := v_taken.refused;
            spent := v_taken.spent;
            avoided := v_taken.avoided;
            v_claimed := v_taken.taken;
        end if;
    end if;

    if not v_all_done then
        insert into taskq.delta (
               campaign_id, waiting, delayed, working, done, failed, cancelled, failures,
               first_failures)
        values (p_campaign, v_waiting - v_claimed, v_settled.delayed, v_claimed - v_ended,
                v_settled.done, v_settled.failed, v_settled.cancelled, v_settled.failures,
                v_settled.first_failures);
    elsif v_ended + v_claimed > 0 then
        insert into taskq.delta (campaign_id, waiting, working, done)
        values (p_campaign, -v_claimed, v_claimed - v_ended, v_ended);
    end if;
    if random() < 1.0 / 1024 then
        perform taskq.fold();
    end if;
end
$$;
