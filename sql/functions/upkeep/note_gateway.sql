-- note_gateway(holder, name, release, sessions, per_s, front, certificate_ends_s): notes that a gateway is at work, and how busy;
-- see the table gateway. Called by each gateway every ten seconds.
--
-- certificate_ends_s: when its certificate ends, in seconds since 1970; null: it has none, or cannot read it.
-- sessions: null: the gateway ends, and is forgotten. Gateways silent for an hour are forgotten too; at most
-- 1,000 are noted.
--
-- Result: the time here, in seconds since 1970; null: the gateway has ended.
--
-- Locks: the gateway's row. Index: gateway_pkey.
-- @roles gateway
create or replace function taskq.note_gateway(
    p_holder uuid,
    p_name text,
    p_release text,
    p_sessions integer,
    p_per_s double precision,
    p_front boolean,
    p_certificate_ends_s double precision default null
)
returns double precision
language plpgsql
as $$
declare
    v_now constant timestamptz := clock_timestamp();
    v_ends constant timestamptz := to_timestamp(greatest(0, least(p_certificate_ends_s, 253402300799)));
begin
    if p_sessions is null then
        delete from taskq.gateway g where g.holder = p_holder;
        return null;
    end if;
    update taskq.gateway g
       set sessions = p_sessions,
           per_s = p_per_s,
           front = p_front,
           seen_at = v_now,
           certificate_ends = v_ends
     where g.holder = p_holder;
    if found then
        return extract(epoch from v_now);
    end if;
    delete from taskq.gateway g where g.seen_at < v_now - interval '1 hour';
    insert into taskq.gateway (holder, name, release, sessions, per_s, front, seen_at, certificate_ends)
    select p_holder, left(p_name, 200), left(p_release, 50), p_sessions, p_per_s, p_front, v_now,
           v_ends
     where (select count(*) from taskq.gateway) < 1000
        on conflict (holder) do nothing;
    return extract(epoch from v_now);
end
$$;
