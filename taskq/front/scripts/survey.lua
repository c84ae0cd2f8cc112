-- survey: returns the lengths of some lists, and takes the campaigns wanted since the last survey.
--
-- KEYS: state, wanted, wake, then the lists. ARGV: epoch.
-- Result: {{length of each list}, {wanted campaigns, 1000 at most}}; false if Redis has another
-- epoch, or if a key is of a wrong type, which taskq never causes.
local spoiled = false

local function asked(...)
    local answer = redis.pcall(...)
    if type(answer) == 'table' and answer.err then
        if not string.find(answer.err, 'WRONGTYPE', 1, true) then
            error(answer.err, 0)
        end
        spoiled = true
    end
    return answer
end

if asked('HGET', KEYS[1], 'epoch') ~= ARGV[1] then
    return false
end
asked('LLEN', KEYS[3])
local lengths = {}
for at = 4, #KEYS do
    lengths[at - 3] = asked('LLEN', KEYS[at])
end
local found = asked('SPOP', KEYS[2], 1000)
if spoiled then
    return false
end
local wanted = {}
for _, campaign in ipairs(found) do
    if #campaign < 19 and string.match(campaign, '^%d+$') then
        wanted[#wanted + 1] = campaign
    end
end
return {lengths, wanted}
