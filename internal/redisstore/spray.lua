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

local call, size, day, wrap = redis.call, 384, 1440, 65536
local many, share, most, reports = tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4]), {}
local minute = tonumber(ARGV[1]) or math.floor(call('TIME')[1] / 60)

local function read(b)
  local s, all = call('GETRANGE', KEYS[1], b * size, b * size + size - 1), {}
  s = s .. string.rep('\0', size - #s)
  for i = 1, size, 12 do
    local one = {}
    one.value, one.account, one.network, one.minute = struct.unpack('<I4I4I2I2', s, i)
    one.age = (minute - one.minute) % wrap
    if one.age >= day then one.value = 0 end
    all[#all + 1] = one
  end
  return all
end

local function write(b, all)
  local s = {}
  for i, one in ipairs(all) do s[i] = struct.pack('<I4I4I2I2', one.value, one.account, one.network, one.minute) end
  call('SETRANGE', KEYS[1], b * size, table.concat(s))
end

-- missed are a password's misses, oldest first.
local function missed(all, value)
  local of = {}
  for _, one in ipairs(all) do
    if one.value == value then of[#of + 1] = one end
  end
  table.sort(of, function(x, y) return x.age > y.age end)
  return of
end

-- slot is where a new miss goes, and whether it counts: its account is new and its network has a
-- share left.
local function slot(all, value, account, network)
  local room, counts, least, shared, neighbour = nil, {}, nil, 0, nil
  for i, one in ipairs(all) do
    if one.value == value and one.account == account then return i, false end
    if one.value == value and one.network == network then
      shared = shared + 1
      if not neighbour or one.age > all[neighbour].age then neighbour = i end
    end
    if one.value == 0 then room = i else counts[one.value] = (counts[one.value] or 0) + 1 end
  end
  if shared >= share then return neighbour, false end
  local full = (counts[value] or 0) >= many
  if room and not full then return room, true end
  for i, one in ipairs(all) do
    if not full or one.value == value then
      local n, of = counts[one.value] or 0, least and counts[all[least].value] or 0
      if not least or n < of or n == of and one.age > all[least].age then least = i end
    end
  end
  return least, true
end

local function ends(value)
  return tonumber(string.match(call('HGET', KEYS[2], value) or '', '%d+ (%d+)')) or 0
end

local function count(value, all, fresh, whole)
  local of = missed(all, value)
  local since, till, accounts, networks = string.match(call('HGET', KEYS[2], value) or '', '(%d+) (%d+) (%d+) (%d+)')
  accounts, till = tonumber(accounts), tonumber(till) or 0
  local known = till > minute
  if not known and #of < many then return end
  if not known then
    since, accounts, fresh = minute - of[1].age, #of - 1, true
    if call('HLEN', KEYS[2]) >= most then
      local first, at
      local found = call('HGETALL', KEYS[2])
      for i = 1, #found, 2 do
        local ending = tonumber(string.match(found[i + 1], '%d+ (%d+)'))
        if not at or ending < at then first, at = found[i], ending end
      end
      call('HDEL', KEYS[2], first)
    end
  end
  local from, n = {}, 0
  for _, one in ipairs(of) do
    if not from[one.network] then from[one.network], n = true, n + 1 end
  end
  networks = whole ~= 0 and 1 or math.max(tonumber(networks) or 0, n)
  if #of >= many then till = math.max(till, minute - of[#of - many + 1].age + day) end
  if fresh then
    accounts = accounts + 1
    local step = many
    while step < accounts do step = step * 10 end
    if step == accounts then
      reports[#reports + 1] = { value, tonumber(since), till, accounts, networks }
    end
  end
  call('HSET', KEYS[2], value, since .. ' ' .. till .. ' ' .. accounts .. ' ' .. networks)
end

for i = 5, #ARGV, 6 do
  local b, value, account = tonumber(ARGV[i + 1]), tonumber(ARGV[i + 2]), tonumber(ARGV[i + 3])
  local all, network, whole = read(b), tonumber(ARGV[i + 4]), tonumber(ARGV[i + 5])
  if ARGV[i] == 'miss' then
    if ends(whole) <= minute then -- spraying from everywhere needs no count by network
      local at, fresh = slot(all, value, account, network)
      all[at] = { value = value, account = account, network = network, minute = minute % wrap, age = 0 }
      write(b, all)
      count(value, all, fresh, whole)
    end
  else
    for _, one in ipairs(all) do
      if one.value == value and one.account == account then one.value = 0 end
    end
    write(b, all)
  end
end
if #ARGV > 4 then
  for _, key in ipairs(KEYS) do call('PEXPIRE', key, day * 60000 + 60000) end
end
return { reports, call('HGETALL', KEYS[2]) }
