-- knownclients.lua changes what is known of an account's places, by the rules of
-- trusted.Record.
--
-- KEYS  1  the account's places: a sorted set, whose scores are milliseconds.
--          A privileged place is two members: the place, with its last login, and the
--          place and 'f', with its first. A spent one is the place and 's', with when
--          it was spent; 'r' is when all were last forgotten, 0 if never. 'r' is always
--          there: no key means that nothing is known of the account, or no longer.
-- ARGV  1  a place last used then or before is none: now less the TTL
--       2  the TTL, in milliseconds
--       3  how many privileged places are kept
--       4  how many spent places are kept
--       5  how long a privileged place is new, in milliseconds
--       6  for how long one is in use that is of long standing
--       then for each change:
--       +1  remember, spend or forget; reset to forget all places; merge and
--           merge-spent, merge-reset to take in what another copy knows
--       +2  the place, of 16 bytes; of no meaning to reset and merge-reset
--       +3  when, in milliseconds
--       +4  when it was first used
--
-- Answer: 1; 0 if there was no room to remember a place, and what follows was not done.

local key, call, sub = KEYS[1], redis.call, string.sub
local reset = tonumber(call('ZSCORE', key, 'r'))
local newFor, standing = tonumber(ARGV[5]), tonumber(ARGV[6])

local function void(upTo)
  reset = math.max(reset or 0, upTo)
  call('ZADD', key, reset, 'r')
end

local function drop(place) call('ZREM', key, place, place .. 's', place .. 'f') end

-- others drops what has expired, and returns all of a kind but one place.
local function others(place, spent)
  local all, first, list = call('ZRANGE', key, 0, -1, 'WITHSCORES'), {}, {}
  for i = 1, #all, 2 do
    if sub(all[i], 17) == 'f' then first[sub(all[i], 1, 16)] = tonumber(all[i + 1]) end
  end
  for i = 1, #all, 2 do
    local one, kind, last = sub(all[i], 1, 16), sub(all[i], 17), tonumber(all[i + 1])
    if all[i] ~= 'r' and kind ~= 'f' and one ~= place then
      if last <= tonumber(ARGV[1]) then
        drop(one)
      elseif (kind == 's') == spent then
        list[#list + 1] = { place = one, last = last, first = first[one] or 0 }
      end
    end
  end
  return list
end

-- makeRoom evicts what is beyond the most that are kept of a kind, those longest unused
-- and none of long standing before others; never the place itself. It is false if one
-- is new, unless all are merged.
local function makeRoom(place, at, spent, merge)
  local list = others(place, spent)
  local most = tonumber(ARGV[spent and 4 or 3])
  if not spent then
    for _, one in ipairs(list) do
      if #list >= most and not merge and math.abs(at - one.first) < newFor then return false end
      one.stands = one.last - one.first >= standing
    end
    table.sort(list, function(a, b)
      if a.stands ~= b.stands then return b.stands end
      return a.last < b.last
    end)
  end
  for i = 1, #list + 1 - most do
    drop(list[i].place)
    -- A device that is no longer known to be spent must not vouch again by its
    -- cookie.
    if spent then void(list[i].last) end
  end
  return true
end

local function put(place, at, first, spent, merge)
  local member, other = place, place .. 's'
  if spent then member, other = other, member end
  local scores = call('ZMSCORE', key, member, other)
  local here, there = tonumber(scores[1]), tonumber(scores[2])
  local last = math.max(here or 0, there or 0)
  if merge and (at <= (reset or 0) or at < last or at == last and not spent) then return true end
  if here and here <= tonumber(ARGV[1]) then here = nil end
  if not here and not makeRoom(place, at, spent, merge) then return false end
  if there then call('ZREM', key, other) end
  call('ZADD', key, math.max(last, at), member)
  if spent then
    call('ZREM', key, place .. 'f')
  elseif not here or merge then
    call('ZADD', key, first, place .. 'f')
  end
  return true
end

local done = 1
if not reset then void(0) end
for i = 7, #ARGV, 4 do
  local what, place, at, first = ARGV[i], ARGV[i + 1], tonumber(ARGV[i + 2]), tonumber(ARGV[i + 3])
  if what == 'forget' then
    drop(place)
  elseif what == 'reset' then
    call('DEL', key)
    void(at)
  elseif what == 'merge-reset' then
    call('ZREMRANGEBYSCORE', key, '-inf', at)
    void(at)
  elseif what ~= 'remember' or at >= reset then -- else it is told late
    local spent, merge = what == 'spend' or what == 'merge-spent', what == 'merge' or what == 'merge-spent'
    if not put(place, at, first, spent, merge) then
      done = 0
      break
    end
  end
end
call('PEXPIRE', key, ARGV[2])
return done
