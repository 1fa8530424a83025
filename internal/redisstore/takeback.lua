-- takeback.lua takes back a charge from the subjects of one shard.
--
-- KEYS  the subjects' keys; then, if the attempt's password has a tag, the account's tags (charge.lua)
-- ARGV  1  when the charge was made, in milliseconds
--       2  if given, the number of the key whose delay is reset: see the head of a value in charge.lua
--       then, if the password has a tag:
--       3  its tag
--       4  wrong, if it was noted before; right; or unchecked, if it was not noted before
--       5  the piece of its client
--       6  the time in milliseconds; '' is Redis's own
--
-- Answer: 1, or 0 if the charge stands, as the only one for a wrong password. A missing charge
-- (expired, cleared) is no error. If the password was right, the tags follow that its client has
-- noted within a quarter of an hour.

local call, num, sub = redis.call, struct.unpack, string.sub
local wrap, size, life, kept = 4294967296, 11, 86400000, 8
local at, answer, subjects = tonumber(ARGV[1]) % wrap, { 1 }, #KEYS

-- settle notes the result of the check, and reports whether the charge stands.
local function settle(key, tag, how, client)
  local now = tonumber(ARGV[6])
  if not now then
    local t = call('TIME')
    now = t[1] * 1000 + math.floor(t[2] / 1000)
  end
  local ahead = (at - now) % wrap
  if ahead < wrap / 2 then now = now + ahead end
  local notes, found = call('GET', key) or '', nil
  for i = 1, #notes, size do
    local age, alike = (now - num('<I4', notes, i + 4)) % wrap, sub(notes, i + 3, i + 3) == sub(tag, 4)
    if sub(notes, i, i + 3) == tag then
      found = age <= life and i
    elseif how == 'right' and alike and age <= 900000 and sub(notes, i + 8, i + 9) == client then
      answer[#answer + 1] = num('<I4', notes, i)
    end
  end
  if how == 'wrong' then
    -- From now on the note's charge stands for this password.
    if found then
      if sub(notes, found + 10, found + 10) == '\0' then call('SETRANGE', key, found + 9, '\1') end
    elseif #notes < size * kept then
      call('SET', key, notes .. tag .. struct.pack('<I4', at) .. client .. '\0', 'PX', life)
    end
    return not found
  end
  if not found then return false end
  if how == 'unchecked' then
    if num('<I4', notes, found + 4) ~= at then return false end -- it found no room
    if sub(notes, found + 10, found + 10) == '\1' then return true end
  end
  notes = sub(notes, 1, found - 1) .. sub(notes, found + size)
  if notes == '' then call('DEL', key) else call('SET', key, notes, 'KEEPTTL') end
  return false
end

if ARGV[3] then
  subjects = subjects - 1
  if settle(KEYS[#KEYS], ARGV[3], ARGV[4], ARGV[5]) then return { 0 } end
end
for k = 1, subjects do
  local was = call('GET', KEYS[k]) or ''
  local head, s = '', was
  if #s % 4 == 1 then head, s = sub(s, 1, 5), sub(s, 6) end
  local i = #s - 3
  local newest = i > 0 and num('<I4', s, i)
  while i > 0 do
    local one = num('<I4', s, i)
    if one == at then
      if head ~= '' and num('<I4', head, 2) == at then head = i > 4 and 'c' .. sub(s, i - 4, i - 1) or '' end
      s = sub(s, 1, i - 1) .. sub(s, i + 4)
      break
    elseif (newest - one) % wrap > (newest - at) % wrap then
      break -- all that follow are older
    end
    i = i - 4
  end
  if k == tonumber(ARGV[2]) then head = 'c' .. sub(s, -4) end
  if s == '' and was ~= '' then
    call('DEL', KEYS[k])
  elseif s ~= '' and head .. s ~= was then
    call('SET', KEYS[k], head .. s, 'KEEPTTL')
  end
end
return answer
