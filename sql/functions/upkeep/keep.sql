-- keep(holder, term_s): one round of upkeep, if the caller is the keeper or becomes it.
--
-- holder: drawn by the calling process. term_s: seconds for which it is the keeper from now on, an
--     hour at most; the next must come before. One of many callers acts; when it stops calling, another takes over.
-- acting: whether the caller is the keeper. lost, promoted, folded: what was done. held: how many
--     sessions are silent but kept by the brake, see brake(); 0: it is off. paused: the campaigns that
--     paused themselves, see pause_failing() and pause_refused(). suspects: the hosts that have become suspicious,
--     see judge_hosts(). hedged: how many tasks may have a second attempt from now on, see hedge().
--     judge_hosts(), stop_full_owners(), enforce_time_limits(), hedge() and sum_ends() run in one round of four.
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
    v_last timestamptz;
    v_same boolean;
    v_part record;
begin
    p_term_s := least(p_term_s, 3600);
    if current_setting('taskq.embedded', true) = 'on' then
        perform set_config('application_name', 'taskq keeper', false);  -- see all_have_left()
    end if;
    select k.until, case when k.rounds > 0 then k.renewed_at end, k.holder = p_holder into v_until, v_last, v_same
      from taskq.keeper k
     where k.only_one
       and (k.holder = p_holder or k.until < clock_timestamp()
            or taskq.believed(k.until, clock_timestamp()) is null)
       for update skip locked;
    acting := found;
    if not acting then
        return;
    end if;
    update taskq.keeper
       set holder = p_holder,
           until = clock_timestamp() + make_interval(secs => p_term_s),
           renewed_at = clock_timestamp(),
           rounds = rounds + 1
     where only_one;
    perform taskq.note_serving(v_until, v_same);
    perform taskq.note_stall(v_last);
    v_until := coalesce(taskq.believed(v_until, clock_timestamp()), clock_timestamp());
    -- From a little back, or from when the last keeper's term ended; once a minute or so, all that is left.
    lost := taskq.expire(
        case when random() < 0.015 then '-infinity'
             else least(v_until, clock_timestamp()) - interval '10 s' end);
    perform taskq.expire_ahead();
    promoted := taskq.promote_delayed();
    folded := taskq.fold();
    perform taskq.drain_banned(least(v_until, clock_timestamp()) - interval '10 min');
    select b.silent into held from taskq.brake b;
    if random() < 0.1 then
        perform taskq.mend_sequences(null);
    end if;
    -- These parts come last, and each runs alone: an error in one keeps no tasks from being handed out. Some parts go
    -- through all open sessions or owners, and have a share of the rounds.
    for v_part in
        select p.name, p.share, p.trouble
          from (values ('pause_failing', 1, 'no campaign could be paused'),
                       ('refused', 1, 'no campaign could be paused'),
                       ('hosts', 0.25, 'no host could be judged'),
                       ('owners', 0.25, 'no owner could be stopped'),
                       ('time', 0.25, 'no attempt could be ended for its time limit'),
                       ('memory', 0.05, 'no memory could be learnt'),
                       ('limits', 1, 'no room could be found in named limits'),
                       ('hedge', 0.25, 'no second attempt could be made'),
                       ('trends', 1, 'no trend could be recorded'),
                       ('indexes', 1, 'no index of results could be kept'),
                       ('usage', 0.25, 'no ended attempts could be summed'),
                       ('news', 0.05, 'progress of ended attempts could not be removed'))
               as p (name, share, trouble)
    loop
        continue when random() >= v_part.share;
        begin
            case v_part.name
                when 'pause_failing' then paused := taskq.pause_failing(v_until - make_interval(secs => p_term_s));
                when 'refused' then paused := paused || taskq.pause_refused();
                when 'hosts' then suspects := taskq.judge_hosts();
                when 'owners' then perform taskq.stop_full_owners();
                when 'time' then perform taskq.enforce_time_limits();
                when 'memory' then perform taskq.learn_memory();
                when 'limits' then perform taskq.free_limits();
                when 'hedge' then hedged := taskq.hedge();
                when 'trends' then perform taskq.record_trends();
                when 'indexes' then perform taskq.keep_indexes();
                when 'usage' then
                    perform taskq.sum_ends(0.1);
                    if random() < 0.2 then
                        perform taskq.thin_usage();
                        perform taskq.thin_end_sums();
                    end if;
                when 'news' then
                    perform taskq.forget_progress();
                    perform taskq.thin_acts();
                    delete from taskq.refused_hello r
                     where r.last_at < clock_timestamp() - interval '1 day';
                    delete from taskq.stopped s
                     where s.last_at < clock_timestamp() - interval '1 day';
            end case;
        exception
            when others then
                raise warning 'taskq: %: %', v_part.trouble, sqlerrm;
        end;
    end loop;
end
$$;
