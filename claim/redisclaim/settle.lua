-- Records results (transitions 4 to 8).
-- ARGV: time to keep what is done, in us; then, for each result, id, token, outcome,
-- delay in us, 1 if uncharged, doubt in us, reason.
-- Returns, for each one that did not go as usual, its place, the cause, the status.
local keep = tonumber(ARGV[1])

local function stands(row, token, outcome)
  if outcome == 'retry' or outcome == 'released' then
    return row.s == 'pending' and row.t == '0'
  end
  return row.s == outcome and row.t == token
end

-- A fact needs its token and no more, an opinion an item that is still claimed.
local function judge(row, token, outcome)
  if not row then
    return outcome == 'done' and keep == 0 and 'asked' or 'missing'
  end
  local mine = row.t == token
  if mine and (row.s == 'claimed' or row.s == 'sending' and outcome ~= 'released') then
    return 'write'
  elseif mine and outcome == 'done' and (row.s == 'pending' or row.s == 'dead' or row.s == 'unknown') then
    return 'late'
  elseif not live[row.s] and not aside[row.s] then
    return 'foreign'
  elseif stands(row, token, outcome) then
    return 'asked'
  end
  return mine and 'not held' or 'overtaken'
end

local function write(id, row, outcome, after, uncharged, doubted, reason)
  if doubted > 0 and outcome ~= 'done' then
    doubt(row, now - doubted)
  end
  if outcome ~= 'done' and outcome ~= 'released' then
    row.r = reason
  end
  if outcome == 'released' then
    release(id, row)
  elseif outcome == 'retry' then
    row.t = '0'
    if uncharged then
      row.a = math.max(row.a - 1, 0)
    end
    wait(id, row, now + math.max(after, 0))
  else
    finish(id, row, outcome, keep)
  end
end

local out = {}
for i = 2, #ARGV, 7 do
  local id, token, outcome = ARGV[i], ARGV[i + 1], ARGV[i + 2]
  local row = load(id)
  local verdict = judge(row, token, outcome)
  if verdict == 'write' or verdict == 'late' then
    write(id, row, outcome, tonumber(ARGV[i + 3]), ARGV[i + 4] == '1', tonumber(ARGV[i + 5]), ARGV[i + 6])
  elseif verdict == 'foreign' and row.t == token then
    leave(id, row) -- those behind it go on
  end
  if verdict ~= 'write' and verdict ~= 'asked' then
    out[#out + 1] = text((i - 2) / 7)
    out[#out + 1] = verdict
    out[#out + 1] = row and row.s or ''
  end
end
return out
