-- takeback.lua removes a charge from the subjects of one shard.
--
-- KEYS  the subjects' keys; then, if the attempt's password can be recognised,
--       the account's last wrong ones (charge.lua)
-- ARGV  1  when the charge was made, in milliseconds
--       2  if given, the number of the key whose backoff begins anew: see the head
--          of a value in charge.lua
--       then, if the password can be recognised:
--       3  what stands for it
--       4  own if the charge is the attempt's, else same: it holds on to that of
--          another with the same password
--       5  right if the password was, else unseen: it was not looked at
--       6  the piece of its place
--       7  the time in milliseconds; '' is Redis's own
--
-- Answer: from how many subjects it was removed. One from which the charge has
-- gone already (expired, cleared) is no error. Of a password: 1 if the charge is to
-- be taken back, else 0: another attempt that may be wrong relies on it; 1 if it
-- was made at this place; then, if it was right, the strangers' that failed from
-- its place in the last quarter of an hour.

local wrap, removed, subjects = 4294967296, 0, #KEYS
local at = tonumber(ARGV[1]) % wrap
local take, all, made = true, true, {}

local function drop()
  local key, value, own, right = KEYS[#KEYS], tonumber(ARGV[3]), ARGV[4] == 'own', ARGV[5] == 'right'
  local now, place, scope, orphan = tonumber(ARGV[7]), tonumber(ARGV[6]), 33554432, 67108864
  if not now then
    local t = redis.call('TIME')
    now = t[1] * 1000 + math.floor(t[2] / 1000)
  end
  local s, found = redis.call('GET', key) or '', nil
  local known, since, where, holders
  for i = 1, #s, 12 do
    local one, charged, there, held = struct.unpack('<I4I4I2I2', s, i)
    if one % orphan == value then
      found, known, since, where, holders = i, one, charged, there, held
    elseif right and there == place and one % orphan < scope and value < scope and (now - charged) % wrap <= 900000 then
      made[#made + 1] = one % orphan
    end
  end
  take, all = own, own
  if not found then return end
  local gone = right
  if since == at then
    all = own or where == place
    if (now - since) % wrap <= 360000 and holders < 65535 then holders = holders - 1 end
    if right then
      take = own or known >= orphan
    elseif holders == 0 then
      take, gone = true, true
    else
      take = false
      if own and known < orphan then known = known + orphan end
    end
  end
  local rest = gone and '' or struct.pack('<I4I4I2I2', known, since, where, holders)
  s = string.sub(s, 1, found - 1) .. rest .. string.sub(s, found + 12)
  if s == '' then redis.call('DEL', key) else redis.call('SET', key, s, 'KEEPTTL') end
end

local takes = subjects
if ARGV[3] then
  drop()
  subjects = subjects - 1
  takes = take and subjects or 0
  -- What else was charged lies at another place.
  if take and not all then takes = 1 end
end
for k = 1, subjects do
  local key = KEYS[k]
  local was = redis.call('GET', key) or ''
  local head, s = '', was
  if #s % 4 == 1 then head, s = string.sub(s, 1, 5), string.sub(s, 6) end
  local i = k <= takes and #s - 3 or 0
  local newest = i > 0 and struct.unpack('<I4', s, i)
  while i > 0 do
    local one = struct.unpack('<I4', s, i)
    if one == at then
      s = string.sub(s, 1, i - 1) .. string.sub(s, i + 4)
      removed = removed + 1
      break
    elseif (newest - one) % wrap > (newest - at) % wrap then
      break -- all that follow are older
    end
    i = i - 4
  end
  if k == tonumber(ARGV[2]) then head = 'c' .. string.sub(s, -4) end
  if s == '' and was ~= '' then
    redis.call('DEL', key)
  elseif s ~= '' and head .. s ~= was then
    redis.call('SET', key, head .. s, 'KEEPTTL')
  end
end
if not ARGV[3] then return removed end
return { take and 1 or 0, all and 1 or 0, unpack(made) }
