-- charge.lua charges an attempt to the subjects of one shard: to every one that
-- counts, or to none if one of them has no room. For an account it can find the
-- attempt's place on the way, which says what counts and what binds.
--
-- KEYS  1 to n   a key for each subject; if places are asked for, the first is
--                the account's, and the others are of the pairs with the places
--       n+1      the account's places (places.lua), if they are asked for
--       n+2      the account's last wrong passwords, if that of the attempt can
--                be recognised (takeback.lua)
-- ARGV  1        charge, or read to change nothing
--       2        n
--       3        how long a charge may be taken back, in milliseconds
--       then for each subject:
--       +1       how long its key lives: the longest window and a second, in
--                milliseconds
--       +2       its ladder, numbers separated by spaces:
--                  least, below which nothing is full; keep, the most that any
--                  rung asks for
--                  / masks of the rungs that bind a stranger, a privileged and
--                  a spent place: bit i for rung i, bit 15 for the backoff
--                  / failures and window of each rung
--                  / after, first, max and window of the backoff, if it has one
--       then, if places are asked for:
--       +1       1 if only privileged places are charged
--       +2       a place last used then or before is none
--       +3, +4   a place and when its cookie was issued, 0 for an address; then
--                perhaps another: the first that is privileged counts, else the
--                last
--       then, if the password can be recognised:
--       +1       what stands for it if the place turns out to be a stranger's
--       +2       what stands for it at the one place, and perhaps
--       +3       at the other, if that is privileged
--       +4       a piece of the last place
--       last     the time in milliseconds; '' is Redis's own
--
-- Answer: the time, negative if there was no room, 0 if nothing counts; the
-- status (0 stranger, 1 privileged, 2 spent); the number of the place that
-- counts; 1 if anything is known of the account's places; when the same password
-- was charged, 0 if it was not: the attempt then needs room and is charged
-- nothing; then of each subject
-- that counts what was there before: how many charges its longest window holds,
-- as -1 - n if this charge fills a rung; or, if a rung is full, the charges. If
-- there was no room, all places and their scores follow.
--
-- A subject's value is its newest charges, oldest first, each the low 32 bits
-- of its milliseconds, little endian. If its backoff was let begin anew, a head of
-- five bytes stands before them: 'c' and the newest charge of that moment, from which
-- on back none counts for the backoff. A wrong password is 12 bytes: what stands
-- for it; when it was charged, likewise; the piece of its place; how many attempts
-- hold on to that charge.

local call, num, sub = redis.call, struct.unpack, string.sub
local wrap, spare, slack = 4294967296, 8, 1000
local n, now = tonumber(ARGV[2]), tonumber(ARGV[#ARGV])
if not now then
  local t = call('TIME')
  now = t[1] * 1000 + math.floor(t[2] / 1000)
end

-- Which place is it, and what counts?
local status, place, known, counted = 0, 0, 0, nil
local after = 4 + 2 * n + 2 * n -- the places' arguments
if #KEYS > n then
  local first, members = 4 + 2 * n, { 'r' }
  for i = first + 2, after - 2, 2 do
    members[#members + 1], members[#members + 2] = ARGV[i], ARGV[i] .. 's'
  end
  local scores, since = call('ZMSCORE', KEYS[n + 1], unpack(members)), tonumber(ARGV[first + 1])
  if scores[1] then known = 1 end
  for i = 2, #members, 2 do
    place = i / 2
    if scores[i + 1] and tonumber(scores[i + 1]) > since then
      status = 2
    elseif scores[i] and tonumber(scores[i]) > since
      or tonumber(ARGV[first + 1 + i]) > tonumber(scores[1] or 0) then
      status = 1
      break
    else
      status = 0
    end
  end
  counted = status == 1 and { 1 + place } or { 1, 1 + place }
end

-- Is the password one of the account's last wrong ones? It is for a day, and
-- until an attempt can no longer be settled it makes room for no other.
local guess, guesses, same, since = nil, '', nil, 0
local life, young, kept, scope = 86400000, 360000, 8, 33554432
local function guessAt(i)
  local one = {}
  one.value, one.at, one.place, one.holders = struct.unpack('<I4I4I2I2', guesses, i)
  one.value = one.value % 67108864 -- above that a mark of takeback.lua
  return one
end
if #KEYS > n + 1 then
  guess = tonumber(ARGV[after + (status == 1 and place or 0)])
  guesses = call('GET', KEYS[n + 2]) or ''
  for i = 1, #guesses, 12 do
    local one = guessAt(i)
    if one.value == guess and (now - one.at) % wrap <= life then
      same, since = i, now - (now - one.at) % wrap
    end
  end
end
if #KEYS > n and status ~= 1 and ARGV[4 + 2 * n] == '1' then
  return { 0, status, place, known, since }
end

-- hold notes one more attempt that relies on the charge of the same password.
local function hold()
  local one = guessAt(same)
  if one.holders < 65535 and ((now - one.at) % wrap <= young or one.holders == 1) then
    call('SETRANGE', KEYS[n + 2], same + 9, struct.pack('<I2', one.holders + 1))
  end
end

-- note remembers the password, if there is room among the account's others.
local function note()
  local own, out, size = 0, nil, 0
  local rest = {}
  for i = 1, #guesses, 12 do
    local one, age = guessAt(i), nil
    age = (now - one.at) % wrap
    if age <= life then
      rest[#rest + 1] = sub(guesses, i, i + 11)
      if (one.value >= scope) == (guess >= scope) then
        own = own + 1
        -- Those that never came again go first, and of these the oldest.
        local worth = (one.holders > 1 and wrap or 0) - age
        if age > young and (not out or worth < size) then out, size = #rest, worth end
      end
    end
  end
  if own >= kept then
    if not out then return end
    table.remove(rest, out)
  end
  rest[#rest + 1] = struct.pack('<I4I4I2I2', guess, now % wrap, tonumber(ARGV[after + n]), 1)
  call('SET', KEYS[n + 2], table.concat(rest), 'PX', life)
end

-- judge returns the charges to keep; how many lie in the longest window, or
-- these themselves if any rung is full; and whether one is that binds.
local function judge(head, s, lives, ladder)
  local count, longest = #s / 4, lives - slack
  if count + 1 < tonumber(string.match(ladder, '^%d+')) and (s == '' or (now - num('<I4', s)) % wrap <= longest) then
    return s, count, false
  end
  local least, keep, masks, rungs, backoff =
    string.match(ladder, '^(%d+) (%d+) /([^/]*)/([^/]*)/ (.*)$')

  -- age is that of the nth newest charge, within how many are no older.
  local function age(nth) return (now - num('<I4', s, #s - 4 * nth + 1)) % wrap end
  local function within(window)
    local low, high = 0, #s / 4
    while low < high do
      local mid = math.ceil((low + high) / 2)
      if age(mid) <= window then low = mid else high = mid - 1 end
    end
    return low
  end

  count = within(longest)
  s = sub(s, #s - 4 * count + 1)
  if count + 1 < tonumber(least) then return s, count, false end

  local mask, bit, full, fills, binds = nil, 1, false, false, false
  for one in string.gmatch(masks, '%d+') do
    mask = tonumber(one)
    if bit > status then break end
    bit = bit + 1
  end
  bit = 1
  for limit, window in string.gmatch(rungs, '(%d+) (%d+)') do
    limit, window = tonumber(limit), tonumber(window)
    if count >= limit and age(limit) <= window then
      full, binds = true, binds or mask % (2 * bit) >= bit
    elseif count + 1 >= limit and (limit == 1 or age(limit - 1) <= window) then
      fills = true
    end
    bit = 2 * bit
  end
  if backoff ~= '' then
    local after, delay, most, window = string.match(backoff, '(%d+) (%d+) (%d+) (%d+)')
    after, delay, most, window = tonumber(after), tonumber(delay), tonumber(most), tonumber(window)
    if head ~= '' then
      local age = (now - num('<I4', head, 2)) % wrap
      window = age < wrap / 2 and math.min(window, age - 1) or -1
    end
    window = within(window)
    fills = fills or window + 1 >= after
    while after < window and delay < most do after, delay = after + 1, delay * 2 end
    if window >= after and age(1) < math.min(delay, most) then
      full, binds = true, binds or mask >= 32768
    end
  end
  local before = full and head .. s or fills and -1 - count or count
  -- What may yet be taken back pushes out nothing: it would be missing
  -- afterwards.
  keep = tonumber(keep) + spare
  if count >= keep then
    keep = math.min(keep + within(tonumber(ARGV[3])), 4095)
    s = sub(s, math.max(1, #s - 4 * keep + 5))
  end
  return s, before, binds
end

local values, answer, room = call('MGET', unpack(KEYS, 1, n)), { now, status, place, known, since }, true
if not counted then
  counted = {}
  for i = 1, n do counted[i] = i end
end
for _, i in ipairs(counted) do
  if values[i] then -- a clock that went back stands still
    local ahead = (num('<I4', values[i], #values[i] - 3) - now) % wrap
    if ahead < wrap / 2 then now = now + ahead end
  end
end
for k, i in ipairs(counted) do
  local head, s, before, binds = '', values[i] or '', 0, false
  if #s % 4 == 1 then head, s = sub(s, 1, 5), sub(s, 6) end
  s, before, binds = judge(head, s, ARGV[2 + 2 * i], ARGV[3 + 2 * i])
  if ARGV[1] == 'read' then before = values[i] or '' end
  values[i], answer[5 + k], room = s == '' and s or head .. s, before, room and not binds
end
answer[1] = now
if ARGV[1] == 'read' then return answer end
if not room then
  answer[1] = -now
  if #KEYS > n then answer[#answer + 1] = call('ZRANGE', KEYS[n + 1], 0, -1, 'WITHSCORES') end
  return answer
end
if same then
  hold()
  return answer
end
if guess then note() end
local at = struct.pack('<I4', now % wrap)
for _, i in ipairs(counted) do
  call('SET', KEYS[i], values[i] .. at, 'PX', ARGV[2 + 2 * i])
end
return answer
