-- pop: takes entries from the left of some lists, and wakes the refiller if a list runs low.
--
-- KEYS: state, wanted, wake, then the lists. ARGV: epoch, then for each list its campaign and the
-- most entries to take; 0 only asks for the length.
-- Result: for each list {entries, entries left}; false if Redis has another epoch.
--
-- Entries beyond 1 MiB are dropped; once an answer has 4 MiB, no more are taken. A campaign whose
-- list was found empty is added to `wanted`. The signals may fail, for example when memory has run
-- out: the entries taken must reach the caller nevertheless, and the refiller also looks without a
-- signal.
local MAX_ENTRY, MAX_ANSWER, MAX_WANTED, STEP = 1048576, 4194304, 10000, 16

local fields = {'epoch'}
for at = 2, #ARGV, 2 do
    fields[#fields + 1] = 'low:' .. ARGV[at]
end
local state = redis.call('HMGET', KEYS[1], unpack(fields))
if state[1] ~= ARGV[1] then
    return false
end

local answer, size, low = {}, 0, false
for at = 4, #KEYS do
    local campaign, left = ARGV[2 * at - 6], tonumber(ARGV[2 * at - 5])
    local entries = {}
    while left > 0 and size < MAX_ANSWER do
        local step = redis.call('LPOP', KEYS[at], math.min(left, STEP))
        if not step then
            break
        end
        left = left - #step
        for _, entry in ipairs(step) do
            if #entry <= MAX_ENTRY then
                entries[#entries + 1] = entry
                size = size + #entry
            end
        end
    end
    local length = redis.call('LLEN', KEYS[at])
    if length == 0 then
        low = true
        local wanted = #entries == 0 and redis.pcall('SCARD', KEYS[2])
        if type(wanted) == 'number' and wanted < MAX_WANTED then
            redis.pcall('SADD', KEYS[2], campaign)
        end
    elseif length < (tonumber(state[at - 2]) or 0) then
        low = true
    end
    answer[at - 3] = {entries, length}
end
if low and redis.pcall('LLEN', KEYS[3]) == 0 then
    redis.pcall('RPUSH', KEYS[3], '1')
end
return answer
