-- What all scripts begin with. A queue is a fixed set of keys in one slot, and all
-- of them are given to each script: a script makes up no key.
--
-- Truth is in items and values. All else is an index that place and heal make again.
local items, values, order, active = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local kinds = {fresh = KEYS[5], back = KEYS[6], suspect = KEYS[7]}
local claims, leases, state = KEYS[8], {KEYS[9], KEYS[10]}, KEYS[11]
local aside = {dead = KEYS[12], skipped = KEYS[13], unknown = KEYS[14], done = KEYS[15]}
local unique, windows = KEYS[16], KEYS[17]

local live = {pending = true, claimed = true, sending = true}
local week = 7 * 24 * 3600 * 1000

-- Microseconds of the server, the only clock here. Numbers are doubles: exact up
-- to 2^53, which microseconds reach in 2255, but tostring would round them.
local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000000 + tonumber(time[2])

local function text(n)
  return string.format('%.0f', n)
end

-- An item's id is its number in the order of arrival, so that ids sort as that.
local function name(n)
  return string.format('%016.0f', n)
end

-- The next number of a counter: larger than the last one and, in case Redis has
-- forgotten that, larger than all that were given before now.
local function nextof(counter)
  local n = math.max(tonumber(redis.call('HGET', state, counter) or 0) + 1, now)
  redis.call('HSET', state, counter, text(n))
  redis.call('PEXPIRE', state, week)
  return n
end

local function load(id)
  local s = redis.call('HGET', items, id)
  return s and cjson.decode(s)
end

local function save(id, row)
  redis.call('HSET', items, id, cjson.encode(row))
end

-- member is an item's place in its lane: by time stamp, then by arrival.
local function member(id, row)
  return row.k .. '|' .. row.p .. '|' .. id
end

-- holder returns which item a lane is busy with, if any, and the token that it is
-- held by, if any: an item that waits for its retry is held by none.
local function holder(lane)
  local v = redis.call('HGET', active, lane)
  if v then
    return v:sub(1, 16), v:match(' (-?%d+)')
  end
end

local function settle_lane(lane, kind, score)
  for k, key in pairs(kinds) do
    if k == kind then
      redis.call('ZADD', key, score, lane)
    else
      redis.call('ZREM', key, lane)
    end
  end
end

-- kindof says where a pending item is looked for, and since when it is due.
local function kindof(id, row)
  if row.t ~= '0' then
    return 'suspect', row.d
  elseif row.d ~= '0' then
    return 'back', row.d
  end
  return 'fresh', id
end

-- head returns the first item of a lane, that is what may be handed out of it next,
-- and drops what somebody has changed by hand.
local function head(lane)
  while true do
    local id, token = holder(lane)
    if token then
      return nil
    end
    local first
    if not id then
      first = redis.call('ZRANGEBYLEX', order, '[' .. lane .. '|', '(' .. lane .. '}', 'LIMIT', 0, 1)[1]
      if not first then
        return nil
      end
      id = first:sub(-16)
    end
    local row = load(id)
    if row and row.s == 'pending' then
      return id, row
    elseif first then
      redis.call('ZREM', order, first)
    else
      redis.call('HDEL', active, lane)
    end
  end
end

-- place lists a lane by its head, or nowhere while the head is held or there is none.
local function place(lane)
  local id, row = head(lane)
  if id then
    settle_lane(lane, kindof(id, row))
  else
    settle_lane(lane)
  end
end

-- leave takes an item out of its lane, which then goes on.
local function leave(id, row)
  if holder(row.k) == id then
    redis.call('HDEL', active, row.k)
  end
  redis.call('ZREM', order, member(id, row))
  place(row.k)
end

-- free gives an item's unique key away, at once or after a window.
local function free(id, row, window)
  if not row.u or redis.call('HGET', unique, row.u) ~= id then
    return
  end
  if window > 0 then
    redis.call('ZADD', windows, now + window, row.u)
  else
    redis.call('HDEL', unique, row.u)
    redis.call('ZREM', windows, row.u)
  end
end

-- inway returns the item that has a unique key, and its row, if it may not be
-- taken: the row is nil if only the window of one that is done goes on.
local function inway(key, id)
  local other = redis.call('HGET', unique, key)
  if not other or other == id then
    return nil
  end
  local window = tonumber(redis.call('ZSCORE', windows, key) or 0)
  local row = load(other)
  if window > now or row and row.u == key and (live[row.s] or row.s == 'unknown') then
    return other, row, window
  end
end

local function take_unique(id, row)
  if row.u then
    redis.call('HSET', unique, row.u, id)
    redis.call('ZREM', windows, row.u)
  end
end

local function drop(id)
  redis.call('HDEL', items, id)
  redis.call('HDEL', values, id)
  for _, key in pairs(aside) do
    redis.call('ZREM', key, id)
  end
end

-- finish ends an item: it is put aside, or deleted if it is done and not kept.
local function finish(id, row, status, keep)
  if aside[row.s] then
    redis.call('ZREM', aside[row.s], id)
  end
  row.s, row.d, row.e = status, '0', text(now)
  if status ~= 'unknown' then
    free(id, row, status == 'done' and tonumber(row.w or 0) or 0)
  end
  if status == 'done' and keep == 0 then
    drop(id)
  else
    redis.call('ZADD', aside[status], status == 'done' and now + keep or id, id)
    save(id, row)
  end
  leave(id, row)
end

-- wait makes an item pending that was tried: it stays the head of its lane. That it
-- was is kept in row.h, because attempts may be given back.
local function wait(id, row, due)
  row.h = true
  row.s, row.d = 'pending', text(due)
  save(id, row)
  local other = holder(row.k)
  if other and other ~= id then -- only after somebody deleted keys by hand
    redis.call('ZADD', order, 0, member(id, row))
  else
    redis.call('HSET', active, row.k, id)
  end
  place(row.k)
end

-- queue makes an item pending that stands in its lane by its time stamp.
local function queue(id, row, due)
  row.s, row.d = 'pending', text(due)
  save(id, row)
  if holder(row.k) == id then
    redis.call('HDEL', active, row.k)
  end
  redis.call('ZADD', order, 0, member(id, row))
  place(row.k)
end

local function doubt(row, since)
  if row.b == '0' then
    row.b = text(since)
  end
end

-- release takes an attempt back that was never begun.
local function release(id, row)
  row.t, row.a = '0', math.max(row.a - 1, 0)
  if row.h then
    wait(id, row, now)
  else
    queue(id, row, now)
  end
end

local function endclaim(token)
  redis.call('HDEL', claims, token)
  redis.call('ZREM', leases[1], token)
  redis.call('ZREM', leases[2], token)
end

-- untilof returns the end of a live claim; nothing where there is none.
local function untilof(token)
  if redis.call('HEXISTS', claims, token) == 0 then
    return nil
  end
  local u = redis.call('ZSCORE', leases[1], token) or redis.call('ZSCORE', leases[2], token)
  return tonumber(u or 0)
end

-- sweep deletes a few items that are done and whose time to be kept is over, and
-- unique keys whose window is.
local function sweep()
  for _, id in ipairs(redis.call('ZRANGEBYSCORE', aside.done, '-inf', now, 'LIMIT', 0, 100)) do
    drop(id)
  end
  for _, key in ipairs(redis.call('ZRANGEBYSCORE', windows, '-inf', now, 'LIMIT', 0, 100)) do
    redis.call('HDEL', unique, key)
    redis.call('ZREM', windows, key)
  end
end
