-- front_state(): the state of the front for gateways and refillers. Only they may call it: with the secret,
-- which authenticates entries, a caller can forge them.
--
-- name: see front_name(). epoch: 0: there is no front. now_ms: the clock by which entries are timed, milliseconds since 1970.
-- @roles upkeep
create or replace function taskq.front_state(
    out name text,
    out epoch bigint,
    out secret bytea,
    out pool_s double precision,
    out now_ms bigint
)
language plpgsql stable
as $$
begin
    select taskq.front_name(), f.epoch, f.secret, f.pool_s, extract(epoch from clock_timestamp()) * 1000
      into name, epoch, secret, pool_s, now_ms
      from taskq.front f;
end
$$;
