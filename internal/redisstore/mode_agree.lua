-- mode_agree.lua replaces the state of CAPTCHA mode unless another node has written meanwhile.
--
-- KEYS  1 agreed   a hash: v the version, s the state
-- ARGV  1 the version that was read, empty for none  2 the new version
--       3 the new state  4 how long it is kept, in milliseconds
-- Answer: 1, or 0 if another node has written.
if (redis.call('HGET', KEYS[1], 'v') or '') ~= ARGV[1] then return 0 end
redis.call('HSET', KEYS[1], 'v', ARGV[2], 's', ARGV[3])
redis.call('PEXPIRE', KEYS[1], ARGV[4])
return 1
