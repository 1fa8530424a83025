-- spray.lua counts at how many accounts a password was wrong, by the rules of failures.Sprays.
--
-- KEYS  1  the misses: buckets of 32, each 12 bytes: the password's digest, pieces of its account (4 bytes) and
--          network (2), and the minute (2)
--       2  the passwords used for spraying: a hash of 'since until accounts networks', in minutes
-- ARGV  1  the minute; '' is Redis's own
--       2  at how many accounts a password counts as sprayed
--       3  at how many accounts one network's failures count
--       4  how many such passwords are kept
--       then for each miss, of which there may be none:
--       +1  miss, or back after a login of the same client; a found password stays until its end
--       +2  its bucket  +3 the password's digest  +4 its account  +5 its network
--       +6  the password's digest on the whole site, if this miss counts one network alone; else 0
--
-- Answer: the passwords to report, each with since, until, accounts, networks; then the whole hash.

local call, num, sub, size, day, wrap = redis.call, struct.unpack, string.sub, 384, 1440, 65536
local many, share, most, reports = tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4]), {}
local minute = tonumber(ARGV[1]) or math.floor(call('TIME')[1] / 60)

local function put(b, i, bytes) call('SETRANGE', KEYS[1], b * size + i - 1, bytes) end

-- each calls one for every miss in a bucket: with its position, its fields, and its age, 0 if it is empty.
local function each(s, one)
  for i = 1, size, 12 do
    local value, account, network, at = num('<I4I4I2I2', s, i)
    one(i, value, account, network, value == 0 and 0 or (minute - at) % wrap)
  end
end

-- evicted is the position of the miss that a new one replaces in a full bucket: among the password's own if it has
-- enough, else of the password with the fewest, and of these the oldest.
local function evicted(s, own)
  local counts, least, fewest, oldest = {}, nil, nil, nil
  each(s, function(_, value) counts[value] = (counts[value] or 0) + 1 end)
  each(s, function(i, value, _, _, age)
    if age >= day or own and value ~= own then return end
    local n = counts[value]
    if not least or n < fewest or n == fewest and age > oldest then least, fewest, oldest = i, n, age end
  end)
  return least
end

-- place is where a new miss goes, whether it counts (its account is new and its network has a share left), and how
-- many misses the password then has. It empties what has expired.
local function place(b, s, value, account, network)
  local own, room, neighbour, oldest, shared, mine = nil, nil, nil, -1, 0, 0
  for i = 1, size, 12 do
    local one, of, from, at = num('<I4I4I2I2', s, i)
    if one ~= 0 and (minute - at) % wrap >= day then
      put(b, i, '\0\0\0\0')
      one = 0
    end
    if one == 0 then
      room = i
    elseif one == value then
      mine = mine + 1
      if of == account then own = i end
      if from == network then
        local age = (minute - at) % wrap
        shared = shared + 1
        if age > oldest then neighbour, oldest = i, age end
      end
    end
  end
  if own then return own, false, mine end
  if shared >= share then return neighbour, false, mine end
  if mine >= many then return evicted(s, value), true, mine end
  return room or evicted(s), true, mine + 1
end

local found = {} -- the entries of the hash that were read; false: there is none
local function spray(value)
  if found[value] == nil then found[value] = call('HGET', KEYS[2], value) end
  return found[value] or ''
end

local function ends(value) return tonumber(string.match(spray(value), '%d+ (%d+)')) or 0 end

-- replace makes room in the hash: the password that ends first goes.
local function replace()
  local all, first, at = call('HGETALL', KEYS[2]), nil, nil
  for i = 1, #all, 2 do
    local ending = tonumber(string.match(all[i + 1], '%d+ (%d+)'))
    if not at or ending < at then first, at = all[i], ending end
  end
  call('HDEL', KEYS[2], first)
  found[tonumber(first)] = false
end

local function count(value, s, fresh, whole)
  local ages, from, n = {}, {}, 0
  each(s, function(_, one, _, network, age)
    if one ~= value or age >= day then return end
    ages[#ages + 1] = age
    if not from[network] then from[network], n = true, n + 1 end
  end)
  table.sort(ages, function(x, y) return x > y end) -- oldest first
  local since, till, accounts, networks = string.match(spray(value), '(%d+) (%d+) (%d+) (%d+)')
  accounts, till = tonumber(accounts), tonumber(till) or 0
  if till <= minute and #ages < many then return end -- the new miss replaced another of the password
  if till <= minute then
    since, accounts, fresh = minute - ages[1], #ages - 1, true
    if call('HLEN', KEYS[2]) >= most then replace() end
  end
  networks = whole ~= 0 and 1 or math.max(tonumber(networks) or 0, n)
  if #ages >= many then till = math.max(till, minute - ages[#ages - many + 1] + day) end
  if fresh then
    accounts = accounts + 1
    local step = many
    while step < accounts do step = step * 10 end
    if step == accounts then
      reports[#reports + 1] = { value, tonumber(since), till, accounts, networks }
    end
  end
  found[value] = since .. ' ' .. till .. ' ' .. accounts .. ' ' .. networks
  call('HSET', KEYS[2], value, found[value])
end

for i = 5, #ARGV, 6 do
  local b, value, account = tonumber(ARGV[i + 1]), tonumber(ARGV[i + 2]), tonumber(ARGV[i + 3])
  local network, whole = tonumber(ARGV[i + 4]), tonumber(ARGV[i + 5])
  local s = call('GETRANGE', KEYS[1], b * size, b * size + size - 1)
  s = s .. string.rep('\0', size - #s)
  if ARGV[i] == 'back' then
    each(s, function(at, one, of)
      if one == value and of == account then put(b, at, '\0\0\0\0') end
    end)
  elseif whole == 0 or ends(whole) <= minute then -- spraying from everywhere needs no count by network
    local at, fresh, mine = place(b, s, value, account, network)
    local new = struct.pack('<I4I4I2I2', value, account, network, minute % wrap)
    put(b, at, new)
    if mine >= many or ends(value) > minute then
      count(value, sub(s, 1, at - 1) .. new .. sub(s, at + 12), fresh, whole)
    end
  end
end
if #ARGV > 4 then
  for _, key in ipairs(KEYS) do call('PEXPIRE', key, day * 60000 + 60000) end
end
return { reports, call('HGETALL', KEYS[2]) }
