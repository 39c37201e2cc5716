-- Prolongs the lease of this token and fence. It never makes a missing one.
-- KEYS: the lease, the memory. ARGV: token, fence, ttl in ms, time to remember in ms.
local lease = redis.call('HMGET', KEYS[1], 'token', 'fence')
if not lease[1] then
  return 'gone'
end
if lease[1] ~= ARGV[1] or lease[2] ~= ARGV[2] then
  return 'taken'
end
redis.call('PEXPIRE', KEYS[1], ARGV[3])
redis.call('PEXPIRE', KEYS[2], ARGV[4])
return 'ok'
