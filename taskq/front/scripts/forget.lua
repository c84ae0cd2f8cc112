-- forget: removes the low-water marks of lists that are empty, so that marks tell which lists there are.
--
-- KEYS: state, then the lists. ARGV: epoch, then the campaign of each list.
-- Result: how many; false if this is another epoch.
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
