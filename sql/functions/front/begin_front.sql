-- begin_front(pool_s): begins a new epoch of the front (Redis lists of tasks leased ahead). All entries in
-- Redis become invalid, since the secret of another epoch authenticates them. Call it when the contents
-- of Redis are in doubt, and then empty the lists.
--
-- pool_s: seconds after which a task that was leased ahead and that no agent names waits again.
-- Result: that of front_state(). Tasks leased ahead stay so until their deadline, unless return_ahead()
-- returns them: an agent may be working on them.
--
-- Locks: the row of the front.
-- @roles upkeep
create or replace function taskq.begin_front(
    p_pool_s double precision,
    out name text,
    out epoch bigint,
    out secret bytea,
    out pool_s double precision,
    out now_ms bigint
)
language plpgsql
as $$
begin
    update taskq.front f
       set epoch = f.epoch + 1,
           -- Two random UUIDs have 244 random bits, from the server's strong generator.
           secret = sha256(uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid())),
           pool_s = p_pool_s,
           begun_at = clock_timestamp()
 returning taskq.front_name(), f.epoch, f.secret, f.pool_s, extract(epoch from clock_timestamp()) * 1000
      into name, epoch, secret, pool_s, now_ms;
    delete from taskq.front_list;
end
$$;
