-- Reads without a change. ARGV: counts; or list, one of dead, skipped and unknown,
-- the id to begin after, how many; or row and an id; or holders.
if ARGV[1] == 'counts' then
  local n = {pending = redis.call('ZCARD', order), claimed = 0, sending = 0}
  for _, v in ipairs(redis.call('HVALS', active)) do
    local token = v:match(' (-?%d+)')
    if not token then
      n.pending = n.pending + 1
    else
      local row = load(v:sub(1, 16))
      if row and live[row.s] then
        n[row.s] = n[row.s] + 1
      end
    end
  end
  local out, sum = {}, 0
  for _, s in ipairs({'pending', 'claimed', 'sending'}) do
    out[#out + 1] = n[s]
    sum = sum + n[s]
  end
  for _, s in ipairs({'done', 'dead', 'skipped', 'unknown'}) do
    out[#out + 1] = redis.call('ZCARD', aside[s])
    sum = sum + out[#out]
  end
  out[#out + 1] = math.max(redis.call('HLEN', items) - sum, 0)
  return out
end

local out = {text(now)}
if ARGV[1] == 'row' then
  local s = redis.call('HGET', items, ARGV[2])
  return s and {text(now), ARGV[2], s, redis.call('HGET', values, ARGV[2])} or out
elseif ARGV[1] == 'list' then
  for _, id in ipairs(redis.call('ZRANGEBYSCORE', aside[ARGV[2]], '(' .. ARGV[3], '+inf', 'LIMIT', 0, ARGV[4])) do
    local s = redis.call('HGET', items, id)
    if s then
      out[#out + 1] = id
      out[#out + 1] = s
      out[#out + 1] = redis.call('HGET', values, id)
    end
  end
  return out
end
local all = redis.call('HGETALL', claims)
for i = 1, #all, 2 do
  local unmarked = 0
  for _, id in ipairs(cjson.decode(all[i + 1]).i) do
    local row = load(id)
    if row and row.t == all[i] and (row.s == 'claimed' or row.s == 'sending') then
      unmarked = unmarked + 1
    end
  end
  for _, v in ipairs({all[i], text(untilof(all[i])), text(unmarked), all[i + 1]}) do
    out[#out + 1] = v
  end
end
return out
