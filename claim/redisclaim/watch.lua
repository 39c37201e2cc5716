-- Shows all live claims, and items that are held by none, for somebody to watch.
-- On the way it looks at a few items and makes the indexes right for them.
-- ARGV: where the walk goes on, items to look at. Returns where it will go on, claims
-- (token, end, 1 if over, lease, owner), items (lane, id, token).
sweep()

-- Nothing depends on an index being right: here they are made again.
local function heal(id, row)
  local busy, token = holder(row.k)
  if aside[row.s] then
    redis.call('ZADD', aside[row.s], 'NX', row.s == 'done' and now or id, id)
    return
  elseif row.s == 'pending' then
    if busy ~= id then
      redis.call('ZADD', order, 0, member(id, row))
    end
  elseif live[row.s] and not token then
    redis.call('HSET', active, row.k, id .. ' ' .. row.t)
    if busy and busy ~= id then
      local waiting = load(busy)
      if waiting and waiting.s == 'pending' then
        redis.call('ZADD', order, 0, member(busy, waiting))
      end
    end
  end
  if row.u and live[row.s] and redis.call('HEXISTS', unique, row.u) == 0 then
    redis.call('HSET', unique, row.u, id)
  end
  place(row.k)
end

local walk = redis.call('HSCAN', items, ARGV[1], 'COUNT', ARGV[2])
for i = 1, #walk[2], 2 do
  heal(walk[2][i], cjson.decode(walk[2][i + 1]))
end

local known, found = {}, {}
local all = redis.call('HGETALL', claims)
for i = 1, #all, 2 do
  local token, c = all[i], cjson.decode(all[i + 1])
  local ends = untilof(token)
  known[token] = true
  for _, v in ipairs({token, text(ends), ends <= now and '1' or '0', c.l, c.o}) do
    found[#found + 1] = v
  end
end
for m = 1, 2 do -- ends of claims that are gone say nothing
  for _, token in ipairs(redis.call('ZRANGE', leases[m], 0, -1)) do
    if not known[token] then
      redis.call('ZREM', leases[m], token)
    end
  end
end

local orphans = {}
all = redis.call('HGETALL', active)
for i = 1, #all, 2 do
  local token = all[i + 1]:match(' (-?%d+)')
  if token and not known[token] then
    for _, v in ipairs({all[i], all[i + 1]:sub(1, 16), token}) do
      orphans[#orphans + 1] = v
    end
  end
end
return {walk[1], found, orphans}
