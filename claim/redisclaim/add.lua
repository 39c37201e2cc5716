-- Adds an item. The repeat of a call whose reply was lost adds nothing.
-- KEYS[18]: the memory of this call. ARGV: ordering key, time stamp or '', unique
-- key or '', its window in us, value, time to remember in ms.
local before = redis.call('GET', KEYS[18])
if before then
  return {'added', before}
end
local key, stamp, ukey = ARGV[1], ARGV[2], ARGV[3]
if ukey ~= '' then
  local other, row, window = inway(ukey)
  if other then
    local done = not row or row.s == 'done'
    return {'taken', other, row and row.s or 'done', row and (done and row.e or row.n) or '0', done and text(window) or '0'}
  end
end
local n = nextof('arrived')
local id = name(n)
-- Without a stamp the place is that of the arrival, also when the server's clock
-- was set back.
local row = {
  s = 'pending', t = '0', a = 0, d = '0', b = '0', n = text(now),
  k = key == '' and 'i:' .. id or 'k:' .. key, p = stamp == '' and id or stamp,
}
if ukey ~= '' then
  row.u, row.w = ukey, ARGV[4]
  take_unique(id, row)
end
redis.call('HSET', values, id, ARGV[5])
redis.call('SET', KEYS[18], id, 'PX', ARGV[6])
queue(id, row, 0)
return {'added', id}
