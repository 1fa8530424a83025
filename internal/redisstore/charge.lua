-- charge.lua charges an attempt to the subjects of one shard: to every one that
-- counts, or to none if one of them has no room. It can find the account's
-- place on the way, which says what counts and what binds.
--
-- KEYS  1 to n         a key for each subject
--       n+1            the account's places (places.lua), if they are asked for
-- ARGV  1              charge, or read to change nothing
--       2              how long a charge may be taken back, in milliseconds
--       3              n
--       then for each subject:
--       +1  place      0, or the number of the place that it is the pair of
--       +2  binds      the rungs that bind a stranger, a privileged place and a
--                      spent one: three masks, bit i for rung i, bit 15 for the backoff
--       +3  least      with fewer charges no rung is full
--       +4  keep       the most charges that any rung asks for
--       +5  longest    the longest window, in milliseconds
--       +6  rungs      failures and window of each
--       +7  backoff    after, first, max and window; or ''
--       then, if places are asked for:
--       +1  known only 1 if only privileged places are charged
--       +2  since      a place last used then or before is none
--       +3, +4  a place and when its cookie was issued, 0 for an address; then
--                      perhaps another: the first that is privileged counts,
--                      or else the last
--       last           the time in milliseconds; '' is Redis's own
--
-- Answer: the time, negative if there was no room, 0 if nothing counts; the
-- status (0 stranger, 1 privileged, 2 spent); the number of the place that
-- counts; 1 if anything is known of the account's places; then of each subject
-- that counts what was there before: how many charges its longest window holds
-- or, if a rung is full, the charges. If there was no room, then all places and
-- their scores follow.
--
-- A subject's value is its newest charges, oldest first, each the low 32 bits
-- of its milliseconds, little endian.

local call, num, sub = redis.call, struct.unpack, string.sub
local wrap, spare, slack = 4294967296, 8, 1000
local n, now, pending = tonumber(ARGV[3]), ARGV[#ARGV], tonumber(ARGV[2])
if now == '' then
  local t = call('TIME')
  now = t[1] * 1000 + math.floor(t[2] / 1000)
else
  now = tonumber(now)
end

-- age is that of the nth newest charge.
local function age(s, nth) return (now - num('<I4', s, #s - 4 * nth + 1)) % wrap end

-- within is how many of the charges lie in the window.
local function within(s, window)
  local low, high = 0, #s / 4
  while low < high do
    local mid = math.ceil((low + high) / 2)
    if age(s, mid) <= window then low = mid else high = mid - 1 end
  end
  return low
end

-- full reports whether any rung is, and whether one that binds is.
local function full(s, mask, rungs, backoff)
  local any, binds, bit = false, false, 1
  for limit, window in string.gmatch(rungs, '(%d+) (%d+)') do
    limit = tonumber(limit)
    if #s >= 4 * limit and age(s, limit) <= tonumber(window) then
      any, binds = true, binds or mask % (2 * bit) >= bit
    end
    bit = 2 * bit
  end
  if backoff ~= '' then
    local after, delay, most, window = string.match(backoff, '(%d+) (%d+) (%d+) (%d+)')
    after, delay, most = tonumber(after), tonumber(delay), tonumber(most)
    local last, count = age(s, 1), within(s, tonumber(window))
    while after < count and delay < most do after, delay = after + 1, delay * 2 end
    if count >= after and last < math.min(delay, most) then
      any, binds = true, binds or mask >= 32768
    end
  end
  return any, binds
end

-- Which place counts?
local first, asks = 4 + 7 * n, #KEYS > n
local status, place, known, only = 0, 0, 0, false
if asks then
  local since, members = tonumber(ARGV[first + 1]), { 'r' }
  only = ARGV[first] == '1'
  for i = first + 2, #ARGV - 2, 2 do
    members[#members + 1], members[#members + 2] = ARGV[i], ARGV[i] .. 's'
  end
  local scores = call('ZMSCORE', KEYS[n + 1], unpack(members))
  local reset = tonumber(scores[1])
  if reset then known = 1 end
  for i = 2, #scores, 2 do
    local last, spent = tonumber(scores[i]), tonumber(scores[i + 1])
    local issued = tonumber(ARGV[first + 1 + i])
    place = i / 2
    if spent and spent > since then
      status = 2
    elseif last and last > since or issued > (reset or 0) then
      status = 1
      break
    else
      status = 0
    end
  end
end

-- What is there?
local values, counted, charges = call('MGET', unpack(KEYS, 1, n)), {}, {}
for i = 1, n do
  local pair = tonumber(ARGV[7 * i - 3])
  if pair == 0 and status ~= 1 and not only or pair ~= 0 and pair == place and (status == 1 or not only) then
    local s = values[i] or ''
    counted[#counted + 1], charges[#counted + 1] = i, s
    if s ~= '' then -- a clock that went back stands still
      local ahead = (num('<I4', s, #s - 3) - now) % wrap
      if ahead < wrap / 2 then now = now + ahead end
    end
  end
end
if #counted == 0 then return { 0, status, place, known } end

-- Is there room?
local answer, room, live = { now, status, place, known }, true, {}
for k, i in ipairs(counted) do
  local s, arg = charges[k], 7 * i - 3
  local count, any, binds = #s / 4, ARGV[1] == 'read', false
  local longest = tonumber(ARGV[arg + 4])
  if count > 0 and age(s, count) > longest then
    count = within(s, longest)
    s = sub(s, #s - 4 * count + 1)
  end
  if count >= tonumber(ARGV[arg + 2]) then
    local masks = {}
    for mask in string.gmatch(ARGV[arg + 1], '%d+') do masks[#masks + 1] = tonumber(mask) end
    local one
    one, binds = full(s, masks[status + 1], ARGV[arg + 5], ARGV[arg + 6])
    any = any or one
  end
  room = room and not binds
  answer[4 + k], live[k] = any and s or count, s
end
if ARGV[1] == 'read' then return answer end
if not room then
  answer[1] = -now
  if asks then answer[#answer + 1] = call('ZRANGE', KEYS[n + 1], 0, -1, 'WITHSCORES') end
  return answer
end

-- Charge. What may yet be taken back pushes out nothing: it would be missing
-- afterwards.
local at = struct.pack('<I4', now % wrap)
for k, i in ipairs(counted) do
  local s, arg = live[k], 7 * i - 3
  local keep = tonumber(ARGV[arg + 3]) + spare
  if #s >= 4 * keep then
    keep = math.min(keep + within(s, pending), 4095)
    s = sub(s, math.max(1, #s - 4 * keep + 5))
  end
  call('SET', KEYS[i], s .. at, 'PX', ARGV[arg + 4] + slack)
end
return answer
