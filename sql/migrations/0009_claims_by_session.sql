-- Claims are told apart by their session, whatever lease id they were drawn under.

-- Their results have a column more.
drop function if exists taskq.exchange(bigint, jsonb, bigint[], uuid[], integer[]);
drop function if exists taskq.take(bigint, bigint[], uuid[], integer[], integer);
