-- Gives back what vanished workers held (transitions 9 and 11).
-- ARGV: max attempts, number of claims; for each claim its token and its end as it
-- was seen; then, for each item that no claim holds, its lane, id and token.
-- Returns how many are pending, dead and unknown.
local last, n = tonumber(ARGV[1]) - 1, tonumber(ARGV[2])
local year = 365 * 24 * 3600 * 1000000
local returned, dead, unknown = 0, 0, 0

-- The token stays, so that a late fact is still taken, and the item is known for a
-- suspect.
local function giveback(id, token, claim)
  local row = load(id)
  if not row or row.t ~= token then
    return
  elseif not live[row.s] and not aside[row.s] then
    leave(id, row) -- in a state of somebody's own: those behind it go on
    return
  elseif row.s ~= 'claimed' and row.s ~= 'sending' then
    return
  end
  row.r = claim.o and 'the worker vanished: ' .. claim.o or 'the worker vanished, and its claim is gone'
  if row.s == 'sending' or claim.m ~= 2 then
    doubt(row, tonumber(claim.c))
  end
  if row.s == 'sending' then
    unknown = unknown + 1
    finish(id, row, 'unknown', 0)
  elseif claim.m ~= 2 and claim.z and row.a > last then
    dead = dead + 1
    finish(id, row, 'dead', 0)
  else
    if claim.m == 2 then
      row.a = row.a - 1 -- claimed and not sending: it was never begun
    end
    returned = returned + 1
    row.a = math.max(math.min(row.a, last), 0)
    wait(id, row, now)
  end
end

for i = 3, 2 + 2 * n, 2 do
  local token = ARGV[i]
  local claim = redis.call('HGET', claims, token)
  if claim and text(untilof(token)) == ARGV[i + 1] then
    endclaim(token)
    claim = cjson.decode(claim)
    for _, id in ipairs(claim.i) do
      giveback(id, token, claim)
    end
  end
end
for i = 3 + 2 * n, #ARGV, 3 do
  local lane, id, token = ARGV[i], ARGV[i + 1], ARGV[i + 2]
  if redis.call('HEXISTS', claims, token) == 0 then
    local before, by = holder(lane)
    giveback(id, token, {c = text(now - year)})
    -- The item may be gone, or in a state of somebody's own: the lane goes on.
    if before == id and by == token and redis.call('HGET', active, lane) == id .. ' ' .. token then
      redis.call('HDEL', active, lane)
      place(lane)
    end
  end
end
return {returned, dead, unknown}
