-- note_set_back(known, ago_s): records that this server lacks committed work, if a keeper or an agent knows of
-- more rounds than the server: a standby took over before it had received them, a replaced server came back in its
-- successor's place, or an older copy was restored.
--
-- known: the `rounds` that the caller got last, 0: none; ago_s: how many seconds ago.
-- rounds: how many rounds of keepers there were, see keep(). gone_s: at most how many seconds of committed
--     work are gone; null: none, or somebody has recorded it.
--
-- What several know of one set-back is one record: who heard of a later round makes it longer.
--
-- Only a count within the data shows all these cases: the timeline may be the same before and after.
--
-- Locks: the keeper's row, if work is gone; else it writes nothing.
-- @roles upkeep
create or replace function taskq.note_set_back(
    p_known bigint,
    p_ago_s double precision,
    out rounds bigint,
    out gone_s double precision
)
language plpgsql
as $$
declare
    v_until timestamptz;
    v_since timestamptz;
    v_from timestamptz;
begin
    select k.rounds into rounds from taskq.keeper k where k.only_one;
    if p_known <= rounds then
        return;
    end if;
    v_until := clock_timestamp() - make_interval(secs => p_ago_s);
    select k.rounds, k.renewed_at into rounds, v_since
      from taskq.keeper k
     where k.only_one
       and k.rounds < p_known
       for no key update;
    if not found then
        rounds := p_known;
        return;
    end if;
    update taskq.set_back b
       set gone_until = greatest(b.gone_until, v_until),
           rounds = b.rounds + p_known - note_set_back.rounds
     where b.noted_at = (select max(l.noted_at) from taskq.set_back l)
       and v_until < b.noted_at
 returning b.gone_since into v_from;
    if found then
        update taskq.keeper k set rounds = p_known where k.only_one returning k.rounds into note_set_back.rounds;
        gone_s := extract(epoch from v_until - v_from);
        return;
    end if;
    -- The two instants come from the clocks of two servers. If a keeper has acted since, it has recorded the gap.
    v_since := least(v_since, v_until, (
        select min(s.since) from taskq.stall s where v_until between s.since and s.until));
    insert into taskq.set_back (noted_at, gone_since, gone_until, rounds)
    values (clock_timestamp(), v_since, v_until, p_known - note_set_back.rounds);
    update taskq.keeper k set rounds = p_known where k.only_one returning k.rounds into note_set_back.rounds;
    gone_s := extract(epoch from v_until - v_since);
end
$$;
