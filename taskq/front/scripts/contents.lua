-- contents: returns what a front holds, and changes nothing.
--
-- KEYS: state, then some lists. Result: {epoch, {campaign, low-water mark, ...} of each existing
-- list, {length of each list given}}; epoch is null if there is no front, and a length is null if
-- the key is no list. Call it without lists first, to learn which exist.
local MAX_LISTS, MAX_DIGITS = 10000, 19

local epoch, lists, lengths = false, {}, {}
if redis.call('TYPE', KEYS[1]).ok == 'hash' and redis.call('HLEN', KEYS[1]) <= MAX_LISTS then
    epoch = redis.call('HGET', KEYS[1], 'epoch')
    epoch = epoch and #epoch <= MAX_DIGITS and epoch
    local state = redis.call('HGETALL', KEYS[1])
    for at = 1, #state, 2 do
        local campaign = string.match(state[at], '^low:(%d+)$')
        if campaign and #campaign < MAX_DIGITS and #state[at + 1] < MAX_DIGITS then
            lists[#lists + 1] = campaign
            lists[#lists + 1] = state[at + 1]
        end
    end
end
for at = 2, #KEYS do
    local length = redis.pcall('LLEN', KEYS[at])
    lengths[at - 1] = type(length) == 'number' and length
end
return {epoch, lists, lengths}
