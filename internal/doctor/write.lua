-- Writes a key, and deletes it.
redis.call('SET', KEYS[1], '')
return redis.call('DEL', KEYS[1])
