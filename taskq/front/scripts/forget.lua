-- forget: removes the low-water marks of empty lists, so that the marks show which lists exist.
--
-- KEYS: state, then the lists. ARGV: epoch, then the campaign of each list.
-- Result: the number of marks removed; false if Redis has another epoch.
if redis.call('HGET', KEYS[1], 'epoch') ~= ARGV[1] then
    return false
end
local forgotten = 0
for at = 2, #KEYS do
    if redis.call('EXISTS', KEYS[at]) == 0 then
        forgotten = forgotten + redis.call('HDEL', KEYS[1], 'low:' .. ARGV[at])
    end
end
return forgotten
