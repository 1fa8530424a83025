-- places.lua changes what is known of an account's places, by the rules of
-- trusted.Record.
--
-- KEYS  1  the account's places: a sorted set, whose scores are milliseconds.
--          A privileged place is a member, with its last login; a spent one is
--          the place and 's', with when it was spent; 'r' is when all were last
--          forgotten, 0 if never. 'r' is always there: no key means that
--          nothing is known of the account, or no longer.
-- ARGV  1  a place last used then or before is none: now less the TTL
--       2  the TTL, in milliseconds
--       3  how many privileged places are kept
--       4  how many spent places are kept
--       then for each change:
--       +1  remember, spend or forget; reset to forget all places; merge and
--           merge-spent, merge-reset to take in what another copy knows
--       +2  the place, of 16 bytes; of no meaning to reset and merge-reset
--       +3  when, in milliseconds
--
-- Answer: 1.

local key, call = KEYS[1], redis.call
local reset = tonumber(call('ZSCORE', key, 'r'))

local function void(upTo)
  reset = math.max(reset or 0, upTo)
  call('ZADD', key, reset, 'r')
end

-- makeRoom forgets what has expired and, beyond the most that are kept of the
-- member's kind, those longest unused; never the member itself.
local function makeRoom(member, spent, most)
  local all, others = call('ZRANGE', key, 0, -1, 'WITHSCORES'), {}
  for i = 1, #all, 2 do
    local one, score = all[i], tonumber(all[i + 1])
    if one ~= 'r' and one ~= member then
      if score <= tonumber(ARGV[1]) then
        call('ZREM', key, one)
      elseif #one == #member then
        others[#others + 1] = { one, score }
      end
    end
  end
  for i = 1, #others + 1 - most do
    call('ZREM', key, others[i][1])
    -- A device that is no longer known to be spent must not vouch again by its
    -- cookie.
    if spent then void(others[i][2]) end
  end
end

local function put(place, at, spent, merge)
  local member, other = place, place .. 's'
  if spent then member, other = other, member end
  local scores = call('ZMSCORE', key, member, other)
  local here, there = tonumber(scores[1]), tonumber(scores[2])
  local last = math.max(here or 0, there or 0)
  if merge and (at <= (reset or 0) or at < last or at == last and not spent) then return end
  if there then call('ZREM', key, other) end
  call('ZADD', key, math.max(last, at), member)
  if not here then makeRoom(member, spent, tonumber(ARGV[spent and 4 or 3])) end
end

if not reset then void(0) end
for i = 5, #ARGV, 3 do
  local what, place, at = ARGV[i], ARGV[i + 1], tonumber(ARGV[i + 2])
  if what == 'forget' then
    call('ZREM', key, place, place .. 's')
  elseif what == 'reset' then
    call('DEL', key)
    void(at)
  elseif what == 'merge-reset' then
    call('ZREMRANGEBYSCORE', key, '-inf', at)
    void(at)
  elseif what ~= 'remember' or at >= reset then -- else it is told late
    put(place, at, what == 'spend' or what == 'merge-spent', what == 'merge' or what == 'merge-spent')
  end
end
call('PEXPIRE', key, ARGV[2])
return 1
