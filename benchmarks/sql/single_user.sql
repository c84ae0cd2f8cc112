-- Statements for a server in single-user mode, one a line: a heartbeat; an exchange, and what comes before each: it makes the
-- connection's hint fresh or lets it expire, and has the exchange fold no counts, which one in a thousand does.
prepare exchange(text, text, text, text) as select e.revision from taskq.exchange({campaign}, $1, $2::bigint[], $3::uuid[], $4::integer[]) e
prepare exchange_one(text, bigint, uuid) as select e.revision from taskq.exchange_one({campaign}, $1, $2, $3) e
prepare beat(jsonb) as select b.session_id from taskq.beat($1) b
prepare renewed as select setseed(0.5), set_config('taskq.position_{campaign}', (h.of[1:2] || (extract(epoch from clock_timestamp()) * 1000000 + 4500000)::bigint || h.of[4:8])::text, false) from (select current_setting('taskq.position_{campaign}')::bigint[]) h (of)
prepare expired as select setseed(0.5), set_config('taskq.position_{campaign}', (h.of[1:2] || 1::bigint || h.of[4:8])::text, false) from (select current_setting('taskq.position_{campaign}')::bigint[]) h (of)
