#!lua flags=no-writes
-- Reads a range of a view together with its meta, all of one instant. Writes nothing: call it with
-- EVAL_RO (Redis 7.0 or later), from any client.
--
--   EVAL_RO "<this text>" 1 <meta key> [from] [to] [limit]
--
-- KEYS[1]  the meta key of the view, such as  driftless:{agg_daily_product}
-- ARGV[1]  lower bound of the group key: '[key' from key on, '(key' after key, '-' from the start (default)
-- ARGV[2]  upper bound: '[key' up to key, '(key' up to before key, '+' to the end (default)
-- ARGV[3]  most rows to return, 1000 at the most (default)
--
-- Keys are compared byte by byte. All groups whose key begins with the part 2026-09-22 are the range
-- from '[2026-09-22:' to '(2026-09-22;' because ';' is the character after ':'. Where the reply has as
-- many rows as the limit, read on with '(' and its last key as lower bound; the next call is another
-- instant, so compare `version` of both.
--
-- Reply    { meta, row, row, ... }
--          meta: field, value, field, value, ...; empty where there is no such view, which is not zero
--          row:  { group key, { field, value, ... } }; a measure that is null has no field;
--                the field _error stands for a row without values: 'overflow' (a value outside 64 bits),
--                'wrongtype' (somebody else wrote this key)

local meta = KEYS[1]
local from, to = ARGV[1] or '-', ARGV[2] or '+'
local limit = tonumber(ARGV[3] or '1000')
if not limit or limit < 0 or limit > 1000 then limit = 1000 end

local reply = { redis.call('HGETALL', meta) }
for _, key in ipairs(redis.call('ZRANGEBYLEX', meta .. ':index', from, to, 'LIMIT', '0', limit)) do
  local fields = redis.pcall('HGETALL', meta .. ':row:' .. key)
  if fields.err then
    if string.sub(fields.err, 1, 9) ~= 'WRONGTYPE' then return fields end
    fields = { '_error', 'wrongtype' }
  end
  reply[#reply + 1] = { key, fields }
end
return reply
