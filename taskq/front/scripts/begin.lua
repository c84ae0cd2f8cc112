-- begin: empties the front and sets its epoch.
--
-- KEYS: state, wanted, wake, then lists. ARGV: epoch, then the campaign of each list.
-- Result: {} when it is done; otherwise the campaigns with lists that were not given. Then nothing
-- was changed: call again with these lists as well.
--
-- The low-water marks in the state show which lists exist, so no keys are searched for. If the
-- state is no hash, or has more fields than taskq would write, it is deleted without being read.
local MAX_LISTS = 10000

local given = {}
for at = 2, #ARGV do
    given[ARGV[at]] = true
end
local missing = {}
if redis.call('TYPE', KEYS[1]).ok == 'hash' and redis.call('HLEN', KEYS[1]) <= MAX_LISTS then
    for _, field in ipairs(redis.call('HKEYS', KEYS[1])) do
        local campaign = string.match(field, '^low:(%d+)$')
        if campaign and #campaign < 19 and not given[campaign] then
            missing[#missing + 1] = campaign
        end
    end
end
if #missing > 0 then
    return missing
end
for _, key in ipairs(KEYS) do
    redis.call('UNLINK', key)
end
redis.call('HSET', KEYS[1], 'epoch', ARGV[1])
return missing
