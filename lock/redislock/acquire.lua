-- Grants the lease, unless another token holds it.
-- KEYS: the lease, the memory. ARGV: token, ttl in ms, time to remember in ms.
local holder = redis.call('HGET', KEYS[1], 'token')
if holder and holder ~= ARGV[1] then
  return {'held', tostring(redis.call('PTTL', KEYS[1]))}
end
if holder then -- the same call again: the same tenure
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
  redis.call('PEXPIRE', KEYS[2], ARGV[3])
  return {'granted', redis.call('HGET', KEYS[1], 'fence')}
end
-- Numbers are doubles here: exact up to 2^53, which microseconds reach in 2255,
-- but tostring would round them.
local now = redis.call('TIME')
local clock = tonumber(now[1]) * 1000000 + tonumber(now[2])
local fence = string.format('%.0f', math.max(redis.call('HINCRBY', KEYS[2], 'fence', 1), clock))
redis.call('HSET', KEYS[2], 'fence', fence)
redis.call('HDEL', KEYS[2], 'released')
redis.call('PEXPIRE', KEYS[2], ARGV[3])
redis.call('HSET', KEYS[1], 'token', ARGV[1], 'fence', fence)
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return {'granted', fence}
