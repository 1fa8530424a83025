-- spend.lua uses a challenge or a ticket.
--
-- KEYS  1  its key
-- ARGV  1  when it expires, in milliseconds, by Redis's clock
--
-- Answer: 1 for the first call before then, otherwise 0.
--
-- The key lives a second longer, because TIME and the start of PX are two readings.

local time = redis.call('TIME')
local left = tonumber(ARGV[1]) - (time[1] * 1000 + math.floor(time[2] / 1000))
if left <= 0 then return 0 end
return redis.call('SET', KEYS[1], '', 'NX', 'PX', left + 1000) and 1 or 0
