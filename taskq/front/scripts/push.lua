-- push: adds entries to a campaign's list, and sets its low-water mark.
--
-- KEYS: state, the list. ARGV: epoch, campaign, low-water mark, 'right' for the end or 'left' for
-- the front, then 0 to 1000 entries, in the order in which they are to be popped.
-- Result: the length of the list now; false if Redis has another epoch.
--
-- The mark is set first: `begin` would not find a list without a mark.
if redis.call('HGET', KEYS[1], 'epoch') ~= ARGV[1] then
    return false
end
redis.call('HSET', KEYS[1], 'low:' .. ARGV[2], ARGV[3])
if #ARGV < 5 then
    return redis.call('LLEN', KEYS[2])
end
if ARGV[4] == 'right' then
    return redis.call('RPUSH', KEYS[2], unpack(ARGV, 5))
end
local reversed = {}
for at = #ARGV, 5, -1 do
    reversed[#reversed + 1] = ARGV[at]
end
return redis.call('LPUSH', KEYS[2], unpack(reversed))
