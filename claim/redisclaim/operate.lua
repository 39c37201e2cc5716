-- What operators and providers do with items that have come to an end, or wait.
-- ARGV: requeue, resume or delete; then id and token of each. Returns the number
-- done, then id, unique key, the item in the way, its state and since when, for each
-- item whose unique key another one has.
local done, refused = 0, {}
for i = 2, #ARGV, 2 do
  local id, token = ARGV[i], ARGV[i + 1]
  local row = load(id)
  local held = row and (row.s == 'claimed' or row.s == 'sending')
  local ended = row and (row.s == 'dead' or row.s == 'skipped' or row.s == 'unknown')
  if ARGV[1] == 'delete' then
    if row and not held then
      free(id, row, 0)
      drop(id)
      leave(id, row)
      done = done + 1
    end
  elseif ARGV[1] == 'requeue' and ended or row and row.s == 'unknown' and row.t == token then
    local other, way = nil, nil
    if row.u then
      other, way = inway(row.u, id)
    end
    if other then
      for _, v in ipairs({id, row.u, other, way and way.s or 'done', way and way.n or '0'}) do
        refused[#refused + 1] = v
      end
    else
      take_unique(id, row)
      redis.call('ZREM', aside[row.s], id)
      row.t, row.b, row.e, row.h = '0', '0', nil, nil
      if ARGV[1] == 'requeue' then
        row.a = 0
      end
      queue(id, row, now)
      done = done + 1
    end
  end
end
return {tostring(done), refused}
