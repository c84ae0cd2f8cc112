-- exchange(campaign, reports, sessions, leases, wants): the one round trip: reports how attempts
-- ended, then claims, for one or several agents.
--
-- Parameters and results: see settle() and take(). Null stands for no reports, for no claims.
-- All of it happens, or nothing. It may be repeated with the same arguments and then changes
-- nothing more.
--
-- The settings leave one plan for each statement, whatever the statistics say of a table whose
-- rows change status all the time, and plan it once for each connection.
--
-- Every moving transaction appends one row of counts. Now and then, by chance, one folds them, so
-- that their number stays bounded even where no keeper runs.
create or replace function taskq.exchange(
    p_campaign bigint,
    p_reports jsonb,
    p_sessions bigint[],
    p_leases uuid[],
    p_wants integer[],
    out acks text[],
    out tasks jsonb,
    out refused bigint[],
    out revision integer
)
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $$
declare
    v_settled record := taskq.settle(p_campaign, p_reports);
    v_taken record := taskq.take(p_campaign, p_sessions, p_leases, p_wants);
begin
    acks := v_settled.acks;
    tasks := v_taken.tasks;
    refused := v_taken.refused;
    revision := v_taken.revision;
    if v_settled.ended + v_taken.taken > 0 then
        insert into taskq.delta (
               campaign_id, waiting, delayed, working, done, failed, cancelled, failures)
        values (p_campaign, v_settled.waiting - v_taken.taken, v_settled.delayed,
                v_taken.taken - v_settled.ended, v_settled.done, v_settled.failed,
                v_settled.cancelled, v_settled.failures);
    end if;
    if random() < 1.0 / 1024 then
        perform taskq.fold();
    end if;
end
$$;
