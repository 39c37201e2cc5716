-- Claims due items, one for each lane at most (docs/semantics.md, section 3,
-- transition 1).
-- ARGV: token, limit, suspects, lease in us, max attempts, 1 or 2 for the delivery,
-- owner, kind to begin with, 1 if items that come back are first, then the tokens
-- of earlier claims of this process whose replies were lost.
local token, limit, suspects = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local lease, last = tonumber(ARGV[4]), tonumber(ARGV[5]) - 1
local delivery, owner = tonumber(ARGV[6]), ARGV[7]
local turn, backfirst = tonumber(ARGV[8]), ARGV[9] == '1'

local reply = {}
local function hand(id, row)
  for _, v in ipairs({id, text(row.a), row.b, row.f, redis.call('HGET', values, id)}) do
    reply[#reply + 1] = v
  end
end

-- The same call again, because its reply was lost: the same claim.
local mine = redis.call('HGET', claims, token)
if mine then
  mine = cjson.decode(mine)
  redis.call('ZADD', leases[mine.m], now + lease, token)
  for _, id in ipairs(mine.i) do
    local row = load(id)
    if row and row.t == token and row.s == 'claimed' then
      hand(id, row)
    end
  end
  return {'claimed', '0', text(turn), mine.z and '1' or '0', '0', text(now), reply}
end

-- Nobody knows what those claims took, so nothing of it was begun.
for i = 10, #ARGV do
  local lost = redis.call('HGET', claims, ARGV[i])
  if lost then
    for _, id in ipairs(cjson.decode(lost).i) do
      local row = load(id)
      if row and row.t == ARGV[i] and row.s == 'claimed' then
        release(id, row)
      end
    end
    endclaim(ARGV[i])
  end
end

sweep()
local other = redis.call('ZREVRANGE', leases[3 - delivery], 0, 0, 'WITHSCORES')
if other[1] and tonumber(other[2]) > now then
  local c = redis.call('HGET', claims, other[1])
  return {'delivery', c and cjson.decode(c).o or '?'}
end

local function due(kind, n, offset)
  local upto = kind == 'fresh' and '+inf' or text(now)
  return redis.call('ZRANGEBYSCORE', kinds[kind], '-inf', upto, 'LIMIT', offset or 0, n)
end

local picked = {}
local function pick(lane)
  local id, row = head(lane)
  if id then
    picked[#picked + 1] = {id, row}
  else
    place(lane)
  end
end

-- Fresh items and items that come back take turns.
local function common()
  local from = {due('fresh', limit), due('back', limit)}
  local at, which = {1, 1}, backfirst and 2 or 1
  while #picked < limit do
    local lane = from[which][at[which]]
    if not lane then
      which = 3 - which
      lane = from[which][at[which]]
    end
    if not lane then
      return
    end
    at[which] = at[which] + 1
    which = 3 - which
    backfirst = which == 2
    pick(lane)
  end
end

-- Items that came back from a vanished worker, and are or are not before their
-- last attempt. Those are few: what workers have in their hands.
local function vanished(most, islast)
  local offset = 0
  while #picked < most and offset < 1000 do
    local lanes = due('suspect', 100, offset)
    for _, lane in ipairs(lanes) do
      local id, row = head(lane)
      if not id then
        place(lane)
      elseif (row.a >= last) == islast and #picked < most then
        picked[#picked + 1] = {id, row}
      end
    end
    if #lanes < 100 then
      return
    end
    offset = offset + 100
  end
end

local alone = false
for _ = 1, 3 do
  local kind = turn
  turn = (turn + 1) % 3
  if kind == 0 then
    common()
  elseif kind == 1 then
    vanished(suspects > 0 and math.min(limit, suspects) or limit, false)
  else
    vanished(1, true)
    alone = #picked > 0
  end
  if #picked > 0 then
    break
  end
end

local ids = {}
for _, p in ipairs(picked) do
  local id, row = p[1], p[2]
  row.s, row.t, row.a, row.d, row.f = 'claimed', token, row.a + 1, '0', text(nextof('fence'))
  save(id, row)
  redis.call('ZREM', order, member(id, row))
  redis.call('HSET', active, row.k, id .. ' ' .. token)
  settle_lane(row.k)
  ids[#ids + 1] = id
  hand(id, row)
end
if #ids > 0 then
  redis.call('HSET', claims, token, cjson.encode({o = owner, m = delivery, z = alone or nil, l = text(lease), c = text(now), i = ids}))
  redis.call('ZADD', leases[delivery], now + lease, token)
end
local more = #ids < limit and (#due('fresh', 1) + #due('back', 1) + #due('suspect', 1) > 0)
return {'claimed', more and '1' or '0', text(turn), alone and '1' or '0', backfirst and '1' or '0', text(now), reply}
