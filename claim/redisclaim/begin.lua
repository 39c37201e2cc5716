-- Makes it durable that items are about to be sent (transition 3).
-- ARGV: id and token of each. Returns the places of those that may not be.
local lost = {}
for i = 1, #ARGV, 2 do
  local id, token = ARGV[i], ARGV[i + 1]
  local row = load(id)
  if row and row.t == token and (row.s == 'claimed' or row.s == 'sending') and (untilof(token) or 0) > now then
    row.s = 'sending'
    save(id, row)
  else
    lost[#lost + 1] = (i - 1) / 2
  end
end
return lost
