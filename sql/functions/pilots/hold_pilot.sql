-- hold_pilot(pilot, holder, term_s, host): lets one loop act for a pilot: the caller, if it acts already, or if
-- no other loop does.
--
-- holder: drawn by the calling process. term_s: seconds for which it acts from now on, an hour at most; 0: it
--     gives that up. host: where it runs, for people.
-- Result: whether it may act. One of many callers may; when it stops calling, another takes over after the term. A
--     manager's token acts for pilots of its campaigns. Every write for a pilot names its holder; other holders are
--     refused.
--
-- Locks: the pilot's row for the length of the call; a second caller does not wait.
-- @roles manager pilots
-- @gateway manager
-- @repeat safe
-- @act no: the loop of a pilot says that it runs
create or replace function taskq.hold_pilot(
    p_pilot bigint,
    p_holder uuid,
    p_term_s double precision,
    p_host text
)
returns boolean
language plpgsql
as $$
declare
    v_now constant timestamptz := clock_timestamp();
begin
    perform
       from taskq.pilot p
      where p.pilot_id = p_pilot
        and taskq.token_covers(p.path)
        and (p.holder = p_holder or p.held_until < v_now
             or taskq.believed(p.held_until, v_now) is null)
        for update skip locked;
    if not found then
        -- A write of its own may hold the row at this moment.
        return exists (
            select from taskq.pilot p
             where p.pilot_id = p_pilot
               and p.holder = p_holder
               and p.held_until > v_now
               and taskq.token_covers(p.path));
    end if;
    update taskq.pilot p
       set holder = p_holder,
           held_until = v_now + make_interval(secs => least(p_term_s, 3600)),
           looked_at = v_now,
           looked_from = left(p_host, 200)
     where p.pilot_id = p_pilot;
    return true;
end
$$;
