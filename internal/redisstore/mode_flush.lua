-- Notes what one node has counted, and answers with what all nodes have.
--
-- KEYS  1 reports  a hash: node -> its last report, packed: when it came, in ms,
--                  and ARGV 3 to 12
--       2 agreed   a hash: v the version, s the state, what the nodes agreed on
-- ARGV  1 node  2 the version that it knows
--       3 its running minute, in Unix minutes
--       4-6 the pressure, by sign  7-9 what it counted in that minute
--       10-12 and in the one before
--       13 the time in ms; without it, Redis's own
-- Answers with: the time in ms; how many nodes reported in the last 3 s; the sums
-- of 4-6, 7-9 and 10-12 by this clock's minutes; the version; the state, empty if
-- the node knows it.
local now = tonumber(ARGV[13])
if not now then
  local time = redis.call('TIME')
  now = time[1] * 1000 + math.floor(time[2] / 1000)
end
local minute = math.floor(now / 60000)

local mine = {now}
for i = 3, 12 do mine[i - 1] = tonumber(ARGV[i]) end
redis.call('HSET', KEYS[1], ARGV[1], cmsgpack.pack(mine))
redis.call('PEXPIRE', KEYS[1], 200000)

local answer = {now, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}
local function add(to, report, from)
  for sign = 0, 2 do answer[to + sign] = answer[to + sign] + report[from + sign] end
end
local all = redis.call('HGETALL', KEYS[1])
for i = 1, #all, 2 do
  local report = cmsgpack.unpack(all[i + 1])
  local age = math.abs(now - report[1]) -- a failover may set the clock back
  if age <= 3000 then answer[2] = answer[2] + 1 end
  if age <= 60000 then add(3, report, 3) end
  if report[2] == minute then
    add(6, report, 6)
    add(9, report, 9)
  elseif report[2] == minute - 1 then
    add(9, report, 6)
  end
  if age > 120000 then redis.call('HDEL', KEYS[1], all[i]) end
end

local agreed = redis.call('HMGET', KEYS[2], 'v', 's')
answer[12] = agreed[1] or ''
answer[13] = agreed[1] ~= ARGV[2] and agreed[2] or ''
return answer
