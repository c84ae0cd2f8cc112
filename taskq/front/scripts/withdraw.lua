-- withdraw: takes entries out of a list whose tasks must not be handed out any more.
--
-- KEYS: the list. Result: {entries, 256 or some 4 MiB at most; entries left}: call it until none
-- are left. Entries beyond 1 MiB are dropped.
local MAX_ENTRY, MAX_ANSWER, STEPS, STEP = 1048576, 4194304, 16, 16

local entries, size = {}, 0
for _ = 1, STEPS do
    local step = size < MAX_ANSWER and redis.call('LPOP', KEYS[1], STEP)
    if not step then
        break
    end
    for _, entry in ipairs(step) do
        if #entry <= MAX_ENTRY then
            entries[#entries + 1] = entry
            size = size + #entry
        end
    end
end
return {entries, redis.call('LLEN', KEYS[1])}
