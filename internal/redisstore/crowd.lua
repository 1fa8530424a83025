-- crowd.lua notes that an account has logged in from an address.
--
-- KEYS  1  the address's sharers: a sorted set of the beginnings of accounts'
--          digests, with their last logins in milliseconds
-- ARGV  1  the account
--       2  when it logged in
--       3  a login then or before counts no more
--       4  how many sharers are kept: one more than make an address nobody's own
--       5  how long the key lives, in milliseconds
--
-- Answer: the sharers that are left and their scores, oldest first.

local key, call = KEYS[1], redis.call
call('ZADD', key, 'GT', ARGV[2], ARGV[1])
local all, over = call('ZRANGE', key, 0, -1, 'WITHSCORES'), 0
for i = 1, #all, 2 do
  if tonumber(all[i + 1]) <= tonumber(ARGV[3]) or #all / 2 - over > tonumber(ARGV[4]) then
    call('ZREM', key, all[i])
    over = over + 1
  end
end
call('PEXPIRE', key, ARGV[5])
return call('ZRANGE', key, 0, -1, 'WITHSCORES')
