-- knownclients.lua changes an account's known clients, by the rules of trusted.Record.
--
-- KEYS  1  a sorted set, whose scores are milliseconds. A known client has two members: the client, with its
--          last login, and the client and 'f', with its first. A spent one is the client and 's', with when
--          it was spent; 'r' is the last reset, 0 if none. 'r' is always there: without the key, the account is
--          not known here.
-- ARGV  1  a client last used then or before has expired
--       2  the TTL, in milliseconds
--       3  how many known clients are kept
--       4  how many spent clients are kept
--       5  how long a known client is new, in milliseconds
--       6  after how long use it is long-standing
--       then for each change:
--       +1  remember, spend or forget; reset to forget all; merge, merge-spent and merge-reset to add what
--           another copy has
--       +2  the client, 16 bytes; unused by reset and merge-reset
--       +3  when, in milliseconds
--       +4  when it was first used
--
-- Answer: 1; 0 if there was no room for a known client, which ends the changes.

local key, call, sub = KEYS[1], redis.call, string.sub
local reset = tonumber(call('ZSCORE', key, 'r'))
local newFor, standing = tonumber(ARGV[5]), tonumber(ARGV[6])

local function void(upTo)
  reset = math.max(reset or 0, upTo)
  call('ZADD', key, reset, 'r')
end

local function drop(client) call('ZREM', key, client, client .. 's', client .. 'f') end

-- others drops expired clients, and returns all others of a kind.
local function others(client, spent)
  local all, first, list = call('ZRANGE', key, 0, -1, 'WITHSCORES'), {}, {}
  for i = 1, #all, 2 do
    if sub(all[i], 17) == 'f' then first[sub(all[i], 1, 16)] = tonumber(all[i + 1]) end
  end
  for i = 1, #all, 2 do
    local one, kind, last = sub(all[i], 1, 16), sub(all[i], 17), tonumber(all[i + 1])
    if all[i] ~= 'r' and kind ~= 'f' and one ~= client then
      if last <= tonumber(ARGV[1]) then
        drop(one)
      elseif (kind == 's') == spent then
        list[#list + 1] = { client = one, last = last, first = first[one] or 0 }
      end
    end
  end
  return list
end

-- makeRoom evicts clients of a kind beyond the maximum: the longest unused first, long-standing
-- ones last. It returns false if one is new, except in a merge.
local function makeRoom(client, at, spent, merge)
  local list = others(client, spent)
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
    drop(list[i].client)
    -- An evicted spent device must not become known again by its cookie.
    if spent then void(list[i].last) end
  end
  return true
end

local function put(client, at, first, spent, merge)
  local member, other = client, client .. 's'
  if spent then member, other = other, member end
  local scores = call('ZMSCORE', key, member, other)
  local here, there = tonumber(scores[1]), tonumber(scores[2])
  local last = math.max(here or 0, there or 0)
  if merge and (at <= (reset or 0) or at < last or at == last and not spent) then return true end
  if here and here <= tonumber(ARGV[1]) then here = nil end
  if not here and not makeRoom(client, at, spent, merge) then return false end
  if there then call('ZREM', key, other) end
  call('ZADD', key, math.max(last, at), member)
  if spent then
    call('ZREM', key, client .. 'f')
  elseif not here or merge then
    call('ZADD', key, first, client .. 'f')
  end
  return true
end

local done = 1
if not reset then void(0) end
for i = 7, #ARGV, 4 do
  local what, client, at, first = ARGV[i], ARGV[i + 1], tonumber(ARGV[i + 2]), tonumber(ARGV[i + 3])
  if what == 'forget' then
    drop(client)
  elseif what == 'reset' then
    call('DEL', key)
    void(at)
  elseif what == 'merge-reset' then
    call('ZREMRANGEBYSCORE', key, '-inf', at)
    void(at)
  elseif what ~= 'remember' or at >= reset then -- else the login is older than the reset
    local spent, merge = what == 'spend' or what == 'merge-spent', what == 'merge' or what == 'merge-spent'
    if not put(client, at, first, spent, merge) then
      done = 0
      break
    end
  end
end
call('PEXPIRE', key, ARGV[2])
return done
