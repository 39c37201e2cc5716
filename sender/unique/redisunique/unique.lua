-- One call on one unique key, by the rules of unique.Entry.
-- KEYS: the entry. ARGV: the verb, row, id, token, time in microseconds, and the
-- version to take over, or "all".
-- It answers with one word, or with what is in the way:
-- {row, id, how, age, left, version}, times in microseconds, as text.
local verb, row, id, token, span, extra = ARGV[1], ARGV[2], ARGV[3], ARGV[4], tonumber(ARGV[5]), ARGV[6]

-- Numbers are doubles here: exact up to 2^53, which microseconds reach in 2255,
-- but tostring would round them.
local function text(n) return string.format('%.0f', n) end

local clock = redis.call('TIME')
local now = tonumber(clock[1]) * 1000000 + tonumber(clock[2])

local have = redis.call('HMGET', KEYS[1], 'row', 'id', 'token', 'since', 'reserved', 'held', 'marked')
local e = {
  row = have[1] or '', id = have[2] or '', token = have[3] or '', since = tonumber(have[4] or '0'),
  reserved = tonumber(have[5] or '0'), held = tonumber(have[6] or '0'), marked = tonumber(have[7] or '0'),
}

local function expires() return math.max(e.reserved, e.held, e.marked) end

local function look()
  local how, by = nil, ''
  if e.marked > now then
    how, by = 3, e.id
  elseif e.held > now then
    how = 2
  elseif e.reserved > now then
    how = 1
  else
    return nil
  end
  return {e.row, by, text(how), text(math.max(now - e.since, 0)), text(expires() - now), text(e.since) .. ' ' .. text(e.reserved) .. ' ' .. e.row}
end

-- Makes the entry the row's, or returns what is in the way.
local function take(over)
  local s = look()
  if s and e.row == row then
    return nil
  end
  if s and (over == '' or s[3] ~= '1' or s[6] ~= over) then
    return s
  end
  e = {row = row, id = '', token = '', since = now, reserved = 0, held = 0, marked = 0}
  return nil
end

local function save()
  local left = expires() - now
  if left <= 0 then
    redis.call('DEL', KEYS[1])
    return
  end
  redis.call('HSET', KEYS[1], 'row', e.row, 'id', e.id, 'token', e.token, 'since', text(e.since),
    'reserved', text(e.reserved), 'held', text(e.held), 'marked', text(e.marked))
  redis.call('PEXPIRE', KEYS[1], text(math.ceil(left / 1000)))
end

local verbs = {}

function verbs.look() return look() end

function verbs.reserve()
  local s = take(extra)
  if s then return s end
  e.reserved = now + span
  save()
end

function verbs.hold()
  local s = look()
  if s and s[3] == '3' and s[1] == row and s[2] == id then return s end
  s = take(extra)
  if s then return s end
  e.token, e.held = token, now + span
  save()
end

function verbs.extend()
  if token == '' or e.token ~= token then return 'lost' end
  e.held = now + span
  save()
end

function verbs.mark()
  local s = take('')
  if s then return s end
  e.id, e.marked, e.reserved = id, now + span, 0
  if e.token == token then
    e.token, e.held = '', 0
  end
  save()
end

function verbs.free()
  if token == '' or e.token ~= token then return end
  e.token, e.held = '', 0
  if extra == 'all' then
    e.reserved = 0
  end
  save()
end

function verbs.release()
  if e.row ~= row or e.reserved == 0 then return end
  e.reserved = 0
  save()
end

return verbs[verb]() or 'ok'
