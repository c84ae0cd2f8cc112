-- pick_for(campaign, sessions, leases): finds and locks waiting tasks for claims. A part of take(), which pins the
-- settings; not for clients.
--
-- sessions, leases: one element for each task wanted: who wants it, and under which lease id.
-- Results, one element for each task found. tasks, ranks, spans: as pick() returns them. sessions, leases: whose it is
--     to be.
--
-- A task goes to the first place that is left. A task that has failed goes to the first that may have it, see
-- pick_again(). Such tasks that come before all others are looked for first, at intervals, see hint(); those that
-- come after all others are looked for last, if nothing else is left.
create or replace function taskq.pick_for(
    p_campaign bigint,
    p_sessions bigint[],
    p_leases uuid[],
    out tasks bigint[],
    out ranks bigint[],
    out spans bigint[],
    out sessions bigint[],
    out leases uuid[]
)
language plpgsql
as $$
declare
    v_wanted constant integer := cardinality(p_sessions);
    v_hint constant bigint[] := taskq.position_hint(p_campaign);
    v_again record;
    v_others boolean := true;
    v_picked record;
    -- For each task found, which of those wanted it is; empty: the first is the first, and so on.
    v_places integer[] := '{}';
begin
    tasks := '{}';
    ranks := '{}';
    spans := '{}';
    if taskq.is_fresh(v_hint) is not true or v_hint[taskq.hint('again')] = 1 then
        v_again := taskq.pick_again(p_campaign, p_sessions, true);
        v_others := v_again.others;
        tasks := v_again.tasks;
        ranks := v_again.ranks;
        spans := array_fill(null::bigint, array[cardinality(v_again.tasks)]);
        v_places := v_again.places;
    end if;
    v_picked := taskq.pick(p_campaign, v_wanted - cardinality(tasks));
    if v_places <> '{}' then
        v_places := v_places || array(
            select i from generate_series(1, v_wanted) as i
             where i <> all (v_places)
             order by i
             limit cardinality(v_picked.tasks));
    end if;
    tasks := tasks || v_picked.tasks;
    ranks := ranks || v_picked.ranks;
    spans := spans || v_picked.spans;
    if cardinality(tasks) < v_wanted and v_others then
        if v_places = '{}' then
            v_places := array(select generate_series(1, cardinality(tasks)));
        end if;
        v_again := taskq.pick_again(p_campaign, p_sessions, false, tasks, v_places);
        tasks := tasks || v_again.tasks;
        ranks := ranks || v_again.ranks;
        spans := spans || array_fill(null::bigint, array[cardinality(v_again.tasks)]);
        v_places := v_places || v_again.places;
    end if;
    if v_places = '{}' then
        sessions := p_sessions;
        leases := p_leases;
    else
        select array_agg(p_sessions[p.place] order by p.ord), array_agg(p_leases[p.place] order by p.ord)
          into sessions, leases
          from unnest(v_places) with ordinality as p (place, ord);
    end if;
end
$$;
