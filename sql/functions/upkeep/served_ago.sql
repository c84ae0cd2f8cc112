-- served_ago(now, s): the instant since which the queue has served for so many seconds, until `now`; see note_stall().
-- What was claimed before it has been at work for longer than that while it could also report. All that judges attempts
-- at work by their time compares their claims with this instant. Null: s is null.
--
-- Index: stall_pkey.
create or replace function taskq.served_ago(p_now timestamptz, p_s double precision)
returns timestamptz
language plpgsql stable
as $$
declare
    v_left interval := make_interval(secs => p_s);
    v_from timestamptz := p_now;
    v_stall record;
begin
    for v_stall in
        select s.since, s.until from taskq.stall s order by s.since desc
    loop
        exit when v_stall.until <= v_from - v_left;
        v_left := v_left - greatest(v_from - v_stall.until, interval '0');
        v_from := least(v_from, v_stall.since);
    end loop;
    return v_from - v_left;
end
$$;
