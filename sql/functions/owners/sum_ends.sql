-- sum_ends(budget_s): adds the attempts that have ended to `usage` and `end_sum`, each once, for so many seconds at most; then it
-- leaves the rest to the next call. Called by the keeper.
--
-- Attempts commit in another order than they end in. An attempt ends after its transaction got its number, so all that
-- ended before some time are there once all transactions have ended that had a number at that time. Until then
-- nothing later counts: a transaction that writes for an hour makes the sums an hour old. A snapshot does not say which
-- numbers are given out, so the call takes one of its own.
--
-- A copy of the database in another cluster may count its transactions from a lower number; there a number that lies
-- in the future means nothing. If the clock goes back by more than a second, what ends in the time that it repeats
-- is not counted.
--
-- Result: until when all attempts are counted; null: somebody else adds, or changes ended attempts.
-- Locks: the row of `summed`. Index: attempt_ended, and those of add_ends().
create or replace function taskq.sum_ends(p_budget_s double precision)
returns timestamptz
language plpgsql
as $$
declare
    v_began constant timestamptz := clock_timestamp();
    v_xid constant xid8 := pg_current_xact_id();
    v_horizon xid8;
    v_summed taskq.summed;
    v_ready timestamptz;
    v_until timestamptz;
    v_width interval := '10 s';
    v_ends taskq.ends[];
begin
    select s.* into v_summed from taskq.summed s where s.only_one for update skip locked;
    if not found then
        return null;
    end if;
    v_until := v_summed.until;
    v_horizon := pg_snapshot_xmin(pg_current_snapshot());
    if v_horizon >= v_summed.next_xid then
        v_ready := v_summed.next_at - interval '1 s';
    end if;
    while v_until < v_ready loop
        v_ends := taskq.ended_between(v_until, least(v_until + v_width, v_ready));
        perform taskq.add_ends(v_ends);
        v_until := least(v_until + v_width, v_ready);
        v_width := case when cardinality(v_ends) < 5000 then 2 * v_width
                        else greatest(interval '1 s', v_width / 2) end;
        exit when clock_timestamp() > v_began + make_interval(secs => p_budget_s);
    end loop;
    if v_until >= v_ready or v_summed.next_xid > v_xid then
        v_summed.next_xid := v_xid;
        v_summed.next_at := transaction_timestamp();  -- it had no number yet
    end if;
    update taskq.summed
       set until = v_until, next_xid = v_summed.next_xid, next_at = v_summed.next_at
     where only_one;
    return v_until;
end
$$;
