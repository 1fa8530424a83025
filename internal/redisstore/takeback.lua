-- takeback.lua removes a charge from the subjects of one shard.
--
-- KEYS  the subjects' keys
-- ARGV  1  when the charge was made, in milliseconds
--
-- Answer: from how many subjects it was removed. One from which the charge has
-- gone already (expired, cleared) is no error.

local wrap, removed = 4294967296, 0
local at = tonumber(ARGV[1]) % wrap
for _, key in ipairs(KEYS) do
  local s = redis.call('GET', key) or ''
  local i = #s - 3
  local newest = i > 0 and struct.unpack('<I4', s, i)
  while i > 0 do
    local one = struct.unpack('<I4', s, i)
    if one == at then
      s = string.sub(s, 1, i - 1) .. string.sub(s, i + 4)
      if s == '' then redis.call('DEL', key) else redis.call('SET', key, s, 'KEEPTTL') end
      removed = removed + 1
      break
    elseif (newest - one) % wrap > (newest - at) % wrap then
      break -- all that follow are older
    end
    i = i - 4
  end
end
return removed
