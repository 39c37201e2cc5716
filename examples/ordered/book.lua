-- Writes one line of the ledger; at the end of a creation, the invoice as well.
-- KEYS: ledger, fences, numbers, invoices.
-- ARGV: step, customer, id, fence, instance, attempt.
local ledger, fences, numbers, invoices = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local step, customer, id, fence = ARGV[1], ARGV[2], ARGV[3], ARGV[4]

-- Somebody with a larger fence was here: whoever asks has been taken for dead, and
-- doesn't know it yet.
if tonumber(redis.call('HGET', fences, customer) or 0) > tonumber(fence) then
  return 'stale'
end
redis.call('HSET', fences, customer, fence)

-- The invoice may be there already: who made it died before that was recorded.
if step == 'made' and redis.call('HEXISTS', invoices, id) == 0 then
  redis.call('HSET', invoices, id, redis.call('HINCRBY', numbers, customer, 1))
end
redis.call('RPUSH', ledger, cjson.encode({
  step = step, customer = customer, id = id, fence = fence, instance = ARGV[5], attempt = tonumber(ARGV[6]),
  number = tonumber(redis.call('HGET', invoices, id) or 0),
}))
return 'written'
