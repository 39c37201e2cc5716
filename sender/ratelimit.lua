-- A limit that all processes share: the generic cell rate algorithm (GCRA), with
-- slots that are reserved ahead and confirmed when their time has come.
--
-- KEYS: the limit. It holds tat (when the bucket would be full again if nothing
-- else were reserved), epoch (tickets of another one are void), pause (its end)
-- and seen (the last time that was read). Times are in microseconds.
-- ARGV: verb, interval, burst, horizon, tolerance, ms to remember, and then
--   take:  n, slot and epoch of the ticket (0, 0: there is none)
--   back:  n, epoch and tat of the ticket
--   pause: its length
local interval, burst, horizon, tolerance = tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])
local clock = redis.call('TIME')
local now = tonumber(clock[1]) * 1000000 + tonumber(clock[2])
local state = redis.call('HMGET', KEYS[1], 'tat', 'epoch', 'pause', 'seen')
local tat, epoch, pause, seen = tonumber(state[1]), tonumber(state[2]), tonumber(state[3]), tonumber(state[4])

if not (tat and epoch and pause and seen) then
  -- What was granted before is not known, so the bucket is empty.
  tat, epoch, pause, seen = now + burst * interval, now, 0, now
elseif now < seen then
  -- The clock was set back. What lies ahead stays as far ahead as it was.
  tat, epoch, pause = tat - (seen - now), epoch + 1, pause - (seen - now)
end

-- Whole numbers: tostring would round them.
local function text(number)
  return string.format('%.0f', number)
end

local function answer(...)
  redis.call('HSET', KEYS[1], 'tat', text(tat), 'epoch', text(epoch), 'pause', text(pause), 'seen', text(now))
  redis.call('PEXPIRE', KEYS[1], text(tonumber(ARGV[6]) + math.ceil(math.max(tat - now, pause - now, 0) / 1000)))
  return {...}
end

if ARGV[1] == 'pause' then
  pause = math.max(pause, now + tonumber(ARGV[7]))
  -- All tickets are void; the bucket is empty, at the end of the pause too.
  tat, epoch = math.max(pause, now + interval) + (burst - 1) * interval, epoch + 1
  return answer('ok')
end

local n = tonumber(ARGV[7])
if ARGV[1] == 'back' then
  if tonumber(ARGV[8]) == epoch and tonumber(ARGV[9]) == tat then -- nobody came after it
    tat = tat - n * interval
  end
  return answer('ok')
end

local slot = tonumber(ARGV[8])
if slot > 0 and tonumber(ARGV[9]) == epoch then
  if now < slot then
    return answer('wait', text(slot - now), ARGV[8], ARGV[9], text(tat))
  elseif now <= slot + tolerance then
    return answer('go', '0', '0', '0', '0')
  end
  -- Too late: together with those of the next slots it would be too much.
end
slot = math.max(now, tat + (n - burst) * interval)
if slot > now + horizon then
  return answer('later', text(slot - horizon - now), '0', '0', '0')
end
tat = math.max(tat, now) + n * interval
if slot <= now then
  return answer('go', '0', '0', '0', '0')
end
return answer('wait', text(slot - now), text(slot), text(epoch), text(tat))
