-- charge.lua charges an attempt to the counted subjects of one shard, or to none if a limit blocks
-- it. For an account it also finds the client, whose status selects the counted subjects and the
-- enforced limits.
--
-- KEYS  1 to n   a key for each subject; if clients are given, the first is the account's, and the
--                others are of the pairs with the clients
--       n+1      the tags of the account's last passwords, if the attempt's password has one
--       last     the account's known clients (knownclients.lua), if clients are given
-- ARGV  1        charge, or read to change nothing
--       2        n
--       3        how long a charge may be taken back, in milliseconds
--       then for each subject:
--       +1       the life of its key in milliseconds: how long its charges are kept and a second; perhaps longer
--                than its windows, so that earlier limits may return
--       +2       its limits, numbers separated by spaces:
--                  least, below which nothing is full; the longest window; keep, how many charges these
--                  limits or earlier ones need
--                  / masks of the enforced limits for an unknown, a known and a spent client: bit i
--                  for limit i, bit 15 for the delay
--                  / failures and window of each limit
--                  / after, first, max and window of the delay, if there is one
--       then, if clients are given:
--       +1       1 if only known clients are charged
--       +2       a client last used then or before has expired
--       +3, +4   a client and when its cookie was issued, 0 for an IP address; then perhaps another:
--                the first known one counts, else the last
--       then, if the password has a tag:
--       +1       its tag for an unknown client
--       +2       its tag for the first client, and perhaps
--       +3       for the second, if that is known
--       +4       a piece of the last client
--       last     the time in milliseconds; '' is Redis's own
--
-- Answer: the time, negative if blocked, 0 if nothing counts; the status (0 unknown, 1 known, 2 spent); the
-- number of the client that counts; 1 if Redis knows the account; 1 if the password's tag was noted
-- before; then for each counted subject what was there before: how many charges the longest window has, as
-- -1 - n if this charge fills a limit; or, if a limit is full, the charges. If blocked, all known clients and
-- their scores follow.
--
-- A subject's value is its newest charges, oldest first, each the low 32 bits of its milliseconds,
-- little endian. If its delay was reset, a head of five bytes precedes them: 'c' and the newest
-- charge of that moment; that and older charges do not count for the delay. A note of a tag has 11
-- bytes, the oldest note first: the tag, whose last byte tells known from unknown clients; when it
-- was charged; the piece of its client; 1 if another attempt relies on that charge.

local call, num, sub = redis.call, struct.unpack, string.sub
local wrap, spare, slack = 4294967296, 8, 1000
local n, now = tonumber(ARGV[2]), tonumber(ARGV[#ARGV])
if not now then
  local t = call('TIME')
  now = t[1] * 1000 + math.floor(t[2] / 1000)
end

-- Find the client.
local status, client, known, counted = 0, 0, 0, nil
local after = 4 + 2 * n + 2 * n -- past the clients' arguments
local tagged = #KEYS > n + 1
if #KEYS > n then
  local first, members = 4 + 2 * n, { 'r' }
  for i = first + 2, after - 2, 2 do
    members[#members + 1], members[#members + 2] = ARGV[i], ARGV[i] .. 's'
  end
  local scores, since = call('ZMSCORE', KEYS[#KEYS], unpack(members)), tonumber(ARGV[first + 1])
  if scores[1] then known = 1 end
  for i = 2, #members, 2 do
    client = i / 2
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
  counted = status == 1 and { 1 + client } or { 1, 1 + client }
end

-- Read charges and notes. A clock that went back stands still.
local values = call('MGET', unpack(KEYS, 1, tagged and n + 1 or n))
if not counted then
  counted = {}
  for i = 1, n do counted[i] = i end
end
for _, i in ipairs(counted) do
  if values[i] then
    local ahead = (num('<I4', values[i], #values[i] - 3) - now) % wrap
    if ahead < wrap / 2 then now = now + ahead end
  end
end

-- A tag is valid for a day, and is not evicted while its attempt can be settled.
local tag, notes, repeats = nil, tagged and values[n + 1] or '', 0
local size, life, young, kept = 11, 86400000, 360000, 8
local function noted(i) return (now - num('<I4', notes, i + 4)) % wrap end
if tagged then
  tag = ARGV[after + (status == 1 and client or 0)]
  while notes ~= '' and noted(1) > life do notes = sub(notes, size + 1) end
  for i = 1, #notes, size do
    if sub(notes, i, i + 3) == tag then repeats = 1 end
  end
end
if #KEYS > n and status ~= 1 and ARGV[4 + 2 * n] == '1' then
  return { 0, status, client, known, repeats }
end

-- note adds the tag if there is room among those of known or of unknown clients. It evicts notes on
-- which no other attempt relies first, of these the oldest.
local function note()
  if #notes >= size * kept then
    local own, first = 0, nil
    for i = 1, #notes, size do
      if sub(notes, i + 3, i + 3) == sub(tag, 4) then
        own = own + 1
        local better = not first or sub(notes, i + 10, i + 10) < sub(notes, first + 10, first + 10)
        if better and noted(i) > young then first = i end
      end
    end
    if own >= kept then
      if not first then return end
      notes = sub(notes, 1, first - 1) .. sub(notes, first + size)
    end
  end
  call('SET', KEYS[n + 1], notes .. tag .. struct.pack('<I4', now % wrap) .. ARGV[after + n] .. '\0', 'PX', life)
end

-- judge returns the charges to keep; how many lie in the longest window, or the charges if a limit
-- is full; and whether an enforced limit is full.
local function judge(head, s, lives, limits)
  local count, least, longest = #s / 4, string.match(limits, '^(%d+) (%d+)')
  least, longest = tonumber(least), tonumber(longest)
  if count + 1 < least and (s == '' or (now - num('<I4', s)) % wrap <= longest) then
    return s, count, false
  end
  local keep, masks, each, backoff = string.match(limits, '^%d+ %d+ (%d+) /([^/]*)/([^/]*)/ (.*)$')

  -- age is that of the nth newest charge, within the number of charges in a window.
  local function age(nth) return (now - num('<I4', s, #s - 4 * nth + 1)) % wrap end
  local function within(window)
    local low, high = 0, #s / 4
    while low < high do
      local mid = math.ceil((low + high) / 2)
      if age(mid) <= window then low = mid else high = mid - 1 end
    end
    return low
  end

  s = sub(s, #s - 4 * within(lives - slack) + 1)
  count = within(longest)
  if count + 1 < least then return s, count, false end

  local mask, bit, full, fills, binds = nil, 1, false, false, false
  for one in string.gmatch(masks, '%d+') do
    mask = tonumber(one)
    if bit > status then break end
    bit = bit + 1
  end
  bit = 1
  for limit, window in string.gmatch(each, '(%d+) (%d+)') do
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
    local counts = window >= 0 -- else this charge is as old as what was cleared
    window = within(window)
    fills = fills or counts and window + 1 >= after
    while after < window and delay < most do after, delay = after + 1, delay * 2 end
    if window >= after and age(1) < math.min(delay, most) then
      full, binds = true, binds or mask >= 32768
    end
  end
  local before = full and head .. s or fills and -1 - count or count
  -- A charge that may be taken back evicts none, which would be missing afterwards.
  keep = tonumber(keep) + spare
  if #s / 4 >= keep then
    keep = math.min(keep + within(tonumber(ARGV[3])), 4095)
    s = sub(s, math.max(1, #s - 4 * keep + 5))
  end
  return s, before, binds
end

local answer, room = { now, status, client, known, repeats }, true
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
  if #KEYS > n then answer[#answer + 1] = call('ZRANGE', KEYS[#KEYS], 0, -1, 'WITHSCORES') end
  return answer
end
if tagged and repeats == 0 then note() end
local at = struct.pack('<I4', now % wrap)
for _, i in ipairs(counted) do
  call('SET', KEYS[i], values[i] .. at, 'PX', ARGV[2 + 2 * i])
end
return answer
