-- takeback.lua removes a charge from the subjects of one shard.
--
-- KEYS  the subjects' keys
-- ARGV  1  when the charge was made, in milliseconds
--       2  if given, the number of the key whose backoff begins anew: see the head
--          of a value in charge.lua
--
-- Answer: from how many subjects it was removed. One from which the charge has
-- gone already (expired, cleared) is no error.

local wrap, removed = 4294967296, 0
local at = tonumber(ARGV[1]) % wrap
for k, key in ipairs(KEYS) do
  local was = redis.call('GET', key) or ''
  local head, s = '', was
  if #s % 4 == 1 then head, s = string.sub(s, 1, 5), string.sub(s, 6) end
  local i = #s - 3
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
return removed
