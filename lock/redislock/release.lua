-- Ends the lease of this token, and remembers that, for the same call again.
-- KEYS: the lease, the memory. ARGV: token, time to remember in ms.
local holder = redis.call('HGET', KEYS[1], 'token')
if holder and holder ~= ARGV[1] then
  return 'taken'
end
if not holder then
  return redis.call('HGET', KEYS[2], 'released') == ARGV[1] and 'ok' or 'gone'
end
redis.call('DEL', KEYS[1])
redis.call('HSET', KEYS[2], 'released', ARGV[1])
redis.call('PEXPIRE', KEYS[2], ARGV[2])
return 'ok'
