#!lua
-- Publishes one batch of a view, or nothing: the only thing that ever writes a view's keys.
-- Needs Redis 7.0: the first line makes the server refuse the whole script when it is out of memory.
--
-- KEYS  meta, index, changes, then the row key of each group, no key twice
-- ARGV  1..4  expected cursor: version, nonce, token, part
--       5     '1': the index must count as many groups as the meta says; '0': a sweep, which mends it
--       6     cap of the stream of changes
--       7..10 its entry: version (empty: no entry), watermark, groups, keys as JSON (empty: not told)
--       11,12 number of columns, number of meta fields
--       then  the column names; field and value of each meta field; for each group '-' (remove it),
--             '!' (overflow), or '+' and a value a column (empty: null, the field is left out)
-- Reply {'accepted', groups} | {'cursor', version, nonce, token, part} | {'type', key, found}
--       | {'count', index, meta}
--
-- A script is not rolled back, so everything that can fail comes before the first write. Values and
-- numbers stay text: only the two counts of ARGV 11 and 12 become Lua numbers.

local meta, index, changes = KEYS[1], KEYS[2], KEYS[3]
local first_row, last_row = 4, #KEYS
local member_at = #meta + #':row:' + 1
local chunk = 1000 -- arguments a call: Lua's stack is bounded

-- 1. The user may run every command that follows (for the keys, EVAL itself has checked that).
local function may(...)
  if not redis.acl_check_cmd(...) then
    local asked = { ... }
    error({ err = 'NOPERM the publish script may not run ' .. asked[1] .. ' on key ' .. asked[2] })
  end
end

may('TYPE', meta)
may('HMGET', meta, 'f')
may('ZCARD', index)
may('XADD', changes, '*', 'f', 'v')
may('ZADD', index, '0', 'm')
may('ZREM', index, 'm')
may('HSET', meta, 'f', 'v')
may('HINCRBY', meta, 'beat', '1')
if last_row >= first_row then may('UNLINK', KEYS[first_row]) end

-- 2. The meta is ours, and shows the cursor that the batch was computed from.
local function wrong_type(key, expected)
  local found = redis.call('TYPE', key).ok
  if found ~= 'none' and found ~= expected then return { 'type', key, found } end
end

local refused = wrong_type(meta, 'hash')
if refused then return refused end

local now = redis.call('HMGET', meta, 'version', 'nonce', 'token', 'part', 'groups', 'beat')
local absent = { '0', '', '', '0' }
local differs = false
for i = 1, 4 do
  now[i] = now[i] or absent[i]
  if now[i] ~= ARGV[i] then differs = true end
end
if differs then return { 'cursor', now[1], now[2], now[3], now[4] } end

-- 3. The other keys are ours, and no index entry was lost.
refused = wrong_type(index, 'zset') or wrong_type(changes, 'stream')
if refused then return refused end

local function count_of_index() return string.format('%.0f', redis.call('ZCARD', index)) end

local counted, told_count = count_of_index(), now[5] or '0'
if ARGV[5] == '1' and counted ~= told_count then return { 'count', counted, told_count } end

-- 4. The stream of changes first: of the writes, the one that a damaged key could still refuse.
if ARGV[7] ~= '' and ARGV[6] ~= '0' then
  local entry = { 'version', ARGV[7], 'watermark', ARGV[8], 'groups', ARGV[9] }
  if ARGV[10] ~= '' then
    entry[7], entry[8] = 'keys', ARGV[10]
  end
  redis.call('XADD', changes, 'MAXLEN', '~', ARGV[6], '*', unpack(entry))
end

-- 5. Each group: whatever was there goes, then the new row and its index entry.
for i = first_row, last_row, chunk do
  redis.call('UNLINK', unpack(KEYS, i, math.min(i + chunk - 1, last_row)))
end

local columns, fields = tonumber(ARGV[11]), tonumber(ARGV[12])
local meta_at = 13 + columns
local at = meta_at + 2 * fields

local pending = { ZADD = { size = 0 }, ZREM = { size = 0 } }
local function flush(command)
  local batch = pending[command]
  if batch.size > 0 then
    redis.call(command, index, unpack(batch, 1, batch.size))
    batch.size = 0
  end
end
local function queue(command, argument)
  local batch = pending[command]
  batch.size = batch.size + 1
  batch[batch.size] = argument
end

local row = {}
for i = first_row, last_row do
  local key, kind = KEYS[i], ARGV[at]
  local member = string.sub(key, member_at)
  at = at + 1
  if kind == '-' then
    queue('ZREM', member)
    if pending.ZREM.size >= chunk then flush('ZREM') end
  else
    if kind == '!' then
      redis.call('HSET', key, '_error', 'overflow')
    else
      local size = 0
      for c = 0, columns - 1 do
        local value = ARGV[at + c]
        if value ~= '' then
          row[size + 1], row[size + 2] = ARGV[13 + c], value
          size = size + 2
        end
      end
      at = at + columns
      if size > 0 then redis.call('HSET', key, unpack(row, 1, size)) end
    end
    queue('ZADD', '0')
    queue('ZADD', member)
    if pending.ZADD.size >= chunk then flush('ZADD') end
  end
end
flush('ZADD')
flush('ZREM')

-- 6. Last the meta: cursor and watermark now say what the rows hold.
local groups = count_of_index()
local told = {}
-- A bare sign of life counts nothing: it must not cover up what a sweep is about to mend.
if fields > 0 or last_row >= first_row then told = { 'groups', groups } end
if fields > 0 then redis.call('HSET', meta, unpack(ARGV, meta_at, meta_at + 2 * fields - 1)) end
local beat = now[6]
if not beat or #beat > 18 or not string.find(beat, '^[1-9]%d*$') then
  table.insert(told, 'beat')
  table.insert(told, '0')
end
if #told > 0 then redis.call('HSET', meta, unpack(told)) end
redis.call('HINCRBY', meta, 'beat', '1')
return { 'accepted', groups }
