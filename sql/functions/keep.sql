-- keep(holder, term_s): one round of upkeep, if the caller is the keeper or becomes it.
--
-- holder: drawn by the calling process. term_s: seconds for which it is the keeper from now on, an
--     hour at most; the next must come before. Of many callers one acts; when it stops calling, another
--     takes over.
-- acting: whether the caller is the keeper. lost, promoted, folded: what was done. held: how many
--     sessions are silent but kept by the brake, see brake(); 0: it is off. paused: the campaigns that
--     paused themselves, see pulse() and pause_refused(). suspects: the hosts that have become suspicious,
--     see judge_hosts(). hedged: how many tasks may have a second attempt from now on, see hedge().
--     judge_hosts(), stop_full_owners() and hedge() run in one round of four.
--
-- Locks: the keeper's row for the length of the call; a second caller does not wait.
-- @roles upkeep
create or replace function taskq.keep(
    p_holder uuid,
    p_term_s double precision,
    out acting boolean,
    out lost integer,
    out promoted integer,
    out folded integer,
    out held integer,
    out paused text[],
    out suspects text[],
    out hedged integer
)
language plpgsql
as $$
declare
    v_until timestamptz;
begin
    p_term_s := least(p_term_s, 3600);
    select k.until into v_until
      from taskq.keeper k
     where k.holder = p_holder or k.until < clock_timestamp()
        or taskq.believed(k.until, clock_timestamp()) is null
       for update skip locked;
    acting := found;
    if not acting then
        return;
    end if;
    update taskq.keeper
       set holder = p_holder,
           until = clock_timestamp() + make_interval(secs => p_term_s),
           renewed_at = clock_timestamp(),
           rounds = rounds + 1;
    perform taskq.note_serving(v_until);
    v_until := coalesce(taskq.believed(v_until, clock_timestamp()), clock_timestamp());
    -- A little back, and all of the time in which there was no keeper; once a minute or so, whatever is left.
    lost := taskq.expire(
        case when random() < 0.015 then '-infinity'
             else least(v_until, clock_timestamp()) - interval '10 s' end);
    perform taskq.expire_ahead();
    promoted := taskq.promote();
    folded := taskq.fold();
    perform taskq.drain_banned(least(v_until, clock_timestamp()) - interval '10 min');
    select b.silent into held from taskq.brake b;
    if random() < 0.1 then
        perform taskq.mend_sequences(null);
    end if;
    -- What follows comes last, each part alone: an error there keeps no tasks from being handed out.
    begin
        paused := taskq.pulse(v_until - make_interval(secs => p_term_s));
    exception
        when others then
            raise warning 'taskq: no campaign could be paused: %', sqlerrm;
    end;
    begin
        paused := paused || taskq.pause_refused();
    exception
        when others then
            raise warning 'taskq: no campaign could be paused: %', sqlerrm;
    end;
    begin
        -- It goes through all sessions that are open.
        if random() < 0.25 then
            suspects := taskq.judge_hosts();
        end if;
    exception
        when others then
            raise warning 'taskq: no host could be judged: %', sqlerrm;
    end;
    begin
        if random() < 0.25 then
            perform taskq.stop_full_owners();
        end if;
    exception
        when others then
            raise warning 'taskq: no owner could be stopped: %', sqlerrm;
    end;
    begin
        -- So does this, if a campaign that hedges is at its end.
        if random() < 0.25 then
            hedged := taskq.hedge();
        end if;
    exception
        when others then
            raise warning 'taskq: no second attempt could be made: %', sqlerrm;
    end;
    begin
        perform taskq.record_trends();
    exception
        when others then
            raise warning 'taskq: no trend could be recorded: %', sqlerrm;
    end;
    begin
        perform taskq.keep_indexes();
    exception
        when others then
            raise warning 'taskq: no index of results could be kept: %', sqlerrm;
    end;
    begin
        if random() < 0.05 then
            perform taskq.forget_progress();
        end if;
    exception
        when others then
            raise warning 'taskq: progress of ended attempts could not be removed: %', sqlerrm;
    end;
end
$$;
