package redismode

import "authguard/internal/redisscript"

// The keys of a site, all of one slot.
//
//	counts   what was added in each of the last two minutes' seconds, and the
//	         nodes, packed: {s = {second = {the pressure by sign, what was
//	         added by sign}}, n = {node = {seen, flush}}, m = minute}
//	agreed   a hash: v the version of s, what the nodes have agreed on;
//	         k the mark of m, the plot of the last hour
//	even     how much each share has contributed in the running minute or the
//	odd      one before, by the parity of the minute: 16 bits each

// flush takes in what a node has to say and answers with what there is. A flush
// that was taken in already, and is sent again because its answer was lost, is
// only answered; so is one of a node that has flushed before and is not known,
// since then Redis has lost what it said before, too.
//
// KEYS: counts, agreed, even, odd. ARGV: the time in ms or ” for Redis's own;
// node; number of its flush; share; the version and the mark that it knows; the
// signs taken back, by sign; the tallies; then for each second its age and what
// was added, by sign.
//
// It answers with: the time; nodes; whether this one was forgotten; the
// pressure, by sign; what was added in the running minute, and in the one
// before, by sign; version, agreed, mark, minutes, each ” if there is none or
// the node has it; the tallies that were over the share, by how much.
var flush = redisscript.New(`
local call, floor = redis.call, math.floor
local now = tonumber(ARGV[1])
if not now then
  local t = call('TIME')
  now = t[1] * 1000 + floor(t[2] / 1000)
end
local second, minute = floor(now / 1000), floor(now / 60000)
local node, number, share = ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4])

local book = call('GET', KEYS[1])
book = book and cmsgpack.unpack(book) or {s = {}, n = {}, m = minute}
local seconds, nodes = book.s, book.n
for s in pairs(seconds) do
  if s < second - 127 or s > second + 60 then seconds[s] = nil end
end

-- less takes n off one sign of one second, and returns what is left to take.
local function less(s, sign, n)
  local c = seconds[s]
  if not c then return n end
  local took = math.min(n, c[sign])
  c[sign] = c[sign] - took
  return n - took
end

local running, before = KEYS[3 + minute % 2], KEYS[4 - minute % 2]
if book.m ~= minute then
  call('DEL', running)
  if book.m ~= minute - 1 then call('DEL', before) end
  book.m = minute
end

-- beyond is how much of the tallies is over the share; the rest is noted.
local refused = {}
local function beyond()
  local tallies, over, sets = ARGV[10], 0, {}
  if tallies == '' then return 0 end
  local have, had = call('GET', running) or '', call('GET', before) or ''
  local function at(of, i)
    local high, low = string.byte(of, 2 * i + 1, 2 * i + 2)
    return high and high * 256 + (low or 0) or 0
  end
  for at4 = 1, #tallies, 4 do
    local i, n = struct.unpack('>I2I2', tallies, at4)
    local is = at(have, i)
    local room = math.max(0, math.min(n, share - is - at(had, i)))
    if n > room then
      over = over + n - room
      refused[#refused + 1] = struct.pack('>I2I2', i, n - room)
    end
    if room > 0 then
      local k = #sets
      sets[k + 1], sets[k + 2], sets[k + 3], sets[k + 4] = 'SET', 'u16', '#' .. i, is + room
    end
    if #sets >= 4000 or at4 + 4 > #tallies and #sets > 0 then
      call('BITFIELD', running, unpack(sets))
      sets = {}
    end
  end
  call('PEXPIRE', running, 150000)
  return over
end

local me = nodes[node]
local forgotten = not me and number > 1
if not forgotten and not (me and me[2] >= number) then
  for a = 11, #ARGV, 4 do
    local s = second - ARGV[a]
    local c = seconds[s] or {0, 0, 0, 0, 0, 0}
    for sign = 1, 3 do
      local n = tonumber(ARGV[a + sign])
      c[sign], c[sign + 3] = c[sign] + n, c[sign + 3] + n
    end
    seconds[s] = c
  end
  local over = beyond()
  for a = #ARGV - 3, 11, -4 do -- the newest of what was added first
    for sign = 1, 3 do
      local n = math.min(over, tonumber(ARGV[a + sign]))
      less(second - ARGV[a], sign, n)
      less(second - ARGV[a], sign + 3, n)
      over = over - n
    end
  end
  for sign = 1, 3 do
    local back = tonumber(ARGV[6 + sign])
    for s = second, second - 60, -1 do
      if back > 0 then back = less(s, sign, back) end
    end
  end
end
nodes[node] = {now, number}

local alive = 0
for name, n in pairs(nodes) do
  if now - n[1] <= 3000 then alive = alive + 1 end
  if now - n[1] > 180000 then nodes[name] = nil end
end
call('SET', KEYS[1], cmsgpack.pack(book), 'PX', 200000)

local answer = {now, alive, forgotten and 1 or 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}
for s, c in pairs(seconds) do
  local from = floor(s / 60) == minute and 6 or floor(s / 60) == minute - 1 and 9
  for sign = 1, 3 do
    if s >= second - 60 then answer[3 + sign] = answer[3 + sign] + c[sign] end
    if from then answer[from + sign] = answer[from + sign] + c[sign + 3] end
  end
end
local agreed = call('HMGET', KEYS[2], 'v', 's', 'k', 'm')
for i = 1, 4 do answer[12 + i] = agreed[i] or '' end
if answer[13] == ARGV[5] then answer[14] = '' end
if answer[15] == ARGV[6] then answer[16] = '' end
answer[17] = table.concat(refused)
return answer
`)

// agree puts a version in the place of another one.
//
// KEYS: agreed. ARGV: the version to replace, ” for none; the new one; what is
// agreed; the mark and the minutes, ” and ” to leave them; ms to live.
//
// It answers with the version that there is now.
var agree = redisscript.New(`
local call, key = redis.call, KEYS[1]
local was = call('HGET', key, 'v') or ''
if was ~= ARGV[1] then return was end
call('HSET', key, 'v', ARGV[2], 's', ARGV[3])
if ARGV[4] ~= '' then call('HSET', key, 'k', ARGV[4], 'm', ARGV[5]) end
call('PEXPIRE', key, ARGV[6])
return ARGV[2]
`)
