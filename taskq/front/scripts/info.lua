-- info: returns facts about the server that holds a key, also in a cluster.
--
-- KEYS: the key, which is not read. Result: the section `server` of INFO.
return redis.call('INFO', 'server')
