-- ask.lua notes that attempts wait at subjects that are full of undecided charges, and returns the
-- subjects at which attempts of any node wait.
--
-- KEYS  1    a sorted set of subjects by the time of the last request
-- ARGV  1    how long a request is valid, in milliseconds
--       2    the time in milliseconds; '' is Redis's own
--       3... subjects to ask for
--
-- Answer: all requested subjects.

local now, stands = tonumber(ARGV[2]), tonumber(ARGV[1])
if not now then
  local t = redis.call('TIME')
  now = t[1] * 1000 + math.floor(t[2] / 1000)
end
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now - stands)
for i = 3, #ARGV do
  redis.call('ZADD', KEYS[1], now, ARGV[i])
end
if #ARGV > 2 then redis.call('PEXPIRE', KEYS[1], stands) end
return redis.call('ZRANGE', KEYS[1], 0, -1)
