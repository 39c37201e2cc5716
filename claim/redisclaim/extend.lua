-- Prolongs claims by their lease, and makes none that is missing (transition 2).
-- ARGV: tokens. Returns those that are lost.
local lost = {}
for _, token in ipairs(ARGV) do
  local s = redis.call('HGET', claims, token)
  local claim = s and cjson.decode(s)
  if claim and redis.call('ZSCORE', leases[claim.m], token) then
    redis.call('ZADD', leases[claim.m], now + tonumber(claim.l), token)
  else
    lost[#lost + 1] = token
  end
end
return lost
