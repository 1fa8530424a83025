-- mode_flush.lua stores the counts of one node, and answers with the sums over all nodes.
--
-- KEYS  1 counted  a hash: node -> its last report, packed: when it came, in ms, and ARGV 3 to 20
--       2 agreed   a hash: v the version, s the state of CAPTCHA mode
-- ARGV  1 node  2 the version that it knows  3 pairs that have just logged in there
--       4 when the failure rate was reset, as far as it knows, in ms  5 its running minute, in Unix minutes
--       6-10 the failure rate, by sign  11-15 its counts in that minute  16-20 and in the one before
--       21 the time in ms; without it, Redis's own
-- Answer: the time in ms; the number of nodes that reported within 3 s; the sums of 6-10 (of the nodes with the
-- same 4), 11-15 and 16-20 by this clock's minutes; the version; the state, empty if the node knows it; all of 3.
local now = tonumber(ARGV[21])
if not now then
  local time = redis.call('TIME')
  now = time[1] * 1000 + math.floor(time[2] / 1000)
end
local minute = math.floor(now / 60000)

local mine = {now, ARGV[3], ARGV[4]}
for i = 5, 20 do mine[i - 1] = tonumber(ARGV[i]) end
redis.call('HSET', KEYS[1], ARGV[1], cmsgpack.pack(mine))
redis.call('PEXPIRE', KEYS[1], 200000)

local answer = {now, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}
local function add(to, report, from)
  for sign = 0, 4 do answer[to + sign] = answer[to + sign] + report[from + sign] end
end
local corrected = {}
local all = redis.call('HGETALL', KEYS[1])
for i = 1, #all, 2 do
  local report = cmsgpack.unpack(all[i + 1])
  local age = math.abs(now - report[1]) -- a failover may set the clock back
  if age <= 3000 then
    answer[2] = answer[2] + 1
    if report[2] ~= '' then corrected[#corrected + 1] = report[2] end
  end
  if age <= 60000 and report[3] == ARGV[4] then add(3, report, 5) end
  if report[4] == minute then
    add(8, report, 10)
    add(13, report, 15)
  elseif report[4] == minute - 1 then
    add(13, report, 10)
  end
  if age > 120000 then redis.call('HDEL', KEYS[1], all[i]) end
end

local agreed = redis.call('HMGET', KEYS[2], 'v', 's')
answer[18] = agreed[1] or ''
answer[19] = agreed[1] ~= ARGV[2] and agreed[2] or ''
answer[20] = table.concat(corrected, ' ')
return answer
