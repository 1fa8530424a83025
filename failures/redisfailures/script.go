package redisfailures

import (
	"crypto/sha1"
	"encoding/hex"
	"fmt"
	"strings"
	"time"

	"authguard/failures"
)

// A script is Lua and the name by which Redis knows it.
type script struct {
	text string
	sha  string
}

func newScript(text string) *script {
	sum := sha1.Sum([]byte(text)) // Redis's choice
	return &script{text: text, sha: hex.EncodeToString(sum[:])}
}

// prelude reads the clock and knows how charges are packed.
//
// ARGV[1] is the moment in milliseconds that the node proposes, so that all
// scripts of one charge have the same. It is taken if it lies between a tenth
// of a second ago and now; 0 proposes nothing, and a negative one is a test's
// own time.
const prelude = `
local band, byte, pack, all, unpack = bit.band, string.byte, struct.pack, unpack, struct.unpack
local time = redis.call('TIME')
local real = time[1] * 1000 + math.floor(time[2] / 1000)
local proposed, now = tonumber(ARGV[1]), real
if proposed < 0 then
  now = -proposed
elseif proposed <= real + 5 and proposed >= real - 100 then
  now = proposed
end
local now32 = now % 4294967296
local function age(v, i)
  return (now32 - unpack('>I4', v, i * 4 + 1)) % 4294967296
end
local function within(v, n, window)
  if n == 0 or age(v, 0) <= window then return n end
  local low, high = 1, n
  while low < high do
    local mid = math.floor((low + high) / 2)
    if age(v, mid) > window then low = mid + 1 else high = mid end
  end
  return n - low
end
`

// clamped moves now to the newest charge that was read: a moment is never
// earlier than another of its keys.
const clamped = `
for i = FIRST, #KEYS do
  local v = vals[i]
  if v and #v > 0 then
    local ahead = -age(v, #v / 4 - 1) % 4294967296
    if ahead < 2147483648 and ahead > 0 then
      now = now + ahead
      now32 = now % 4294967296
    end
  end
end
`

// attempt tries to charge the subjects from first to last: all or none. The
// arguments of subject i are the rungs that bind it, and how many charges the
// node knows to be decided.
const attempt = `
local function attempt(first, last)
  local room, out, sizes = true, '', {}
  for i = first, last do
    local v = vals[i] or ''
    local at = ARGS + 2 * (i - FIRST)
    local bind = tonumber(ARGV[at + 1])
    local over, failed, count, free, live = ladders[i](v, #v / 4, bind, tonumber(ARGV[at + 2]))
    if band(over, bind) ~= 0 then room = false else free = 0 end
    out = out .. pack('>I2I2I2I4', over, failed, count, free)
    sizes[i] = live
  end
  if not room or last < first then
    return pack('>I4I4', 0, 0) .. out
  end
  for i = first, last do
    local live, v = math.min(sizes[i], keep[i]), vals[i] or ''
    v = (live > 0 and string.sub(v, -4 * live) or '') .. pack('>I4', now32)
    redis.call('SET', KEYS[i], v, 'PX', longest[i])
  end
  return pack('>I4I4', math.floor(now / 4294967296), now32) .. out
end
local clock = pack('>I4I4', math.floor(real / 4294967296), real % 4294967296)
`

// surely is set in what has failed if no charge is undecided: then nothing but
// time opens what is closed.
const surely = 1 << 14

// spare charges are kept beyond those that a ladder looks at, because one that
// is taken back uncovers an older one.
const spare = 16

// ladder is a function that says how a subject stands: which rungs have no
// room, which would have none without the undecided charges, how many charges
// the ladder sees, when there is room, and how many are to be kept.
func ladder(l *failures.Ladder, pending time.Duration) string {
	var b strings.Builder
	longest, keep := millis(l.Longest()), l.Keep()
	fmt.Fprintf(&b, `function(v, n, bind, decided)
  local live = within(v, n, %d)
  local count = math.min(live, %d)
  if n < %d then return 0, 0, count, 0, live end
  local over, failed, free = 0, 0, 0
  local undecided = math.max(0, within(v, n, %d) - decided)
`, longest, keep, l.Quiet(), millis(pending))
	for i, r := range l.Rungs() {
		fmt.Fprintf(&b, `  if n >= %[1]d then
    local a = age(v, n - %[1]d)
    if a <= %[2]d then
      over = over + %[3]d
      if undecided == 0 or n >= %[1]d + undecided and age(v, n - %[1]d - undecided) <= %[2]d then failed = failed + %[3]d end
      if band(bind, %[3]d) ~= 0 then free = math.max(free, %[2]d + 1 - a) end
    end
  end
`, r.Failures, millis(r.Window), 1<<i)
	}
	if p := l.Pace(); p.First > 0 {
		fmt.Fprintf(&b, `  local recent = within(v, n, %[1]d)
  local function due(skip)
    local left = recent - skip
    if n <= skip or left < %[2]d then return 0 end
    return math.max(0, math.min(%[3]d * 2 ^ (left - %[2]d), %[4]d) - age(v, n - skip - 1))
  end
  local wait = due(0)
  if wait > 0 then
    over = over + %[5]d
    if undecided == 0 or due(undecided) > 0 then failed = failed + %[5]d end
    if band(bind, %[5]d) ~= 0 then free = math.max(free, wait) end
  end
`, millis(p.Window), p.After, millis(p.First), millis(p.Max), int(failures.PaceBit))
	}
	fmt.Fprintf(&b, "  if undecided == 0 then failed = failed + %d end\n", surely)
	b.WriteString("  return over, failed, count, free, live\nend")
	return b.String()
}

// tables are the ladders of the keys from first on, and what is kept of each.
func tables(ladders []*failures.Ladder, first int, pending time.Duration) string {
	var fs, keeps, longests strings.Builder
	for i, l := range ladders {
		fmt.Fprintf(&fs, "[%d] = %s,\n", first+i, ladder(l, pending))
		fmt.Fprintf(&keeps, "[%d] = %d, ", first+i, l.Keep()+spare)
		fmt.Fprintf(&longests, "[%d] = %d, ", first+i, millis(l.Longest())+1000)
	}
	return fmt.Sprintf("local ladders = {\n%s}\nlocal keep, longest = {%s}, {%s}\n", fs.String(), keeps.String(), longests.String())
}

// newCharge is the script that charges subjects on these ladders.
//
//	KEYS  the subjects
//	ARGV  the proposed moment; of each subject what binds it and is decided
//
// It answers with the moment, 0 if there was no room, Redis's clock, and how
// each subject stood.
func newCharge(ladders []*failures.Ladder, pending time.Duration) *script {
	body := prelude + "local vals = redis.call('MGET', all(KEYS))\n" + clamped + tables(ladders, 1, pending) + attempt +
		"return '\\0' .. clock .. attempt(1, #KEYS)\n"
	return newScript(bind(body, 1, 1))
}

// newRecognise is the script that asks what a place is to an account, and
// charges one list of subjects if it is privileged, and another if not.
//
//	KEYS  the account's places; the subjects of the first list, then of the second
//	ARGV  the proposed moment, the place, how long it lives in ms, how many
//	      subjects the first list has; then as newCharge
//
// It answers as newCharge does, with the status in front.
func newRecognise(ladders []*failures.Ladder, pending time.Duration) *script {
	body := prelude + "local vals = redis.call('MGET', all(KEYS))\n" + clamped + tables(ladders, 2, pending) + attempt + `
local places, place, status = vals[1] or '', ARGV[2], 0
local from = 9
while true do
  local at = string.find(places, place, from, true)
  if not at then break end
  if (at - 9) % 33 == 0 then
    local high, low = unpack('>I4I4', places, at + 25)
    if proposed < 0 then real = -proposed end
    if real - (high * 4294967296 + low) < tonumber(ARGV[3]) then status = byte(places, at + 16) end
    break
  end
  from = at + 1
end
local first = tonumber(ARGV[4])
if status == 1 then
  return string.char(status) .. clock .. attempt(2, 1 + first)
end
return string.char(status) .. clock .. attempt(2 + first, #KEYS)
`
	return newScript(bind(body, 2, 4))
}

// bind puts in at which key the subjects begin, and after which argument.
func bind(body string, first, args int) string {
	return strings.NewReplacer("FIRST", fmt.Sprint(first), "ARGS", fmt.Sprint(args)).Replace(body)
}

// takeBack removes one charge made at ARGV[1], or if there is none at ARGV[2],
// from each key.
var takeBack = newScript(`
for i = 1, #KEYS do
  local v = redis.call('GET', KEYS[i])
  local at = nil
  for a = 1, v and 2 or 0 do
    local wanted = struct.pack('>I4', tonumber(ARGV[a]))
    for j = #v - 3, 1, -4 do
      if string.sub(v, j, j + 3) == wanted then at = j break end
    end
    if at then break end
  end
  if at and #v == 4 then
    redis.call('DEL', KEYS[i])
  elseif at then
    redis.call('SET', KEYS[i], string.sub(v, 1, at - 1) .. string.sub(v, at + 4), 'KEEPTTL')
  end
end
return redis.status_reply('OK')
`)

// peek answers with Redis's clock in milliseconds and the subjects.
var peek = newScript(`
local time = redis.call('TIME')
return {time[1] * 1000 + math.floor(time[2] / 1000), redis.call('MGET', unpack(KEYS))}
`)

func millis(d time.Duration) int64 { return d.Milliseconds() }
