-- info: tells of the server that holds a key, also in a cluster.
--
-- KEYS: the key, which is not read. Result: what INFO says in its section `server`.
return redis.call('INFO', 'server')
