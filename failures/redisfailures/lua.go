package redisfailures

import (
	"fmt"
	"strings"
	"time"

	"authguard/failures"
	"authguard/trusted/redisplaces"
)

const (
	// clockLua reads Redis's own time, in milliseconds.
	clockLua = "local t=redis.call('TIME')\nlocal now=t[1]*1000+math.floor(t[2]/1000)\n"
	// toldClockLua takes it from the last argument: tests only.
	toldClockLua = "local now=tonumber(ARGV[#ARGV])\n"
	// spare is how many charges are kept beyond what the ladder asks for. Of
	// rungs that do not bind, that many may be taken back and still uncover
	// the older ones.
	spare = 8
	// slack is how much longer than its windows a key lives: a clock may be
	// set back.
	slack = time.Second
)

// lua is the text of a plan's script. It answers with a list:
//
//	the stamp, or 0 less the time if a binding rung was full
//	if it asks: the status, and the record if that may be news ('' is none)
//	for each subject: how many charges its longest window holds, or, if any
//	rung is full or the charge was refused, all its charges
//
// All of it is what was true before the charge.
func (p *plan) lua(clock string, retain int64) string {
	w := &writer{retain: retain}
	w.line("local u,call,wrap=struct.unpack,redis.call,4294967296")
	w.WriteString(clock)
	w.read(p)
	if !p.asks {
		w.charge(p, 0, int(p.n), "", "")
		return w.String()
	}
	w.WriteString(redisplaces.StatusLua)
	w.line("if status==1 then")
	w.charge(p, 0, int(p.privileged), ",status,record", ",status,record")
	w.line("else")
	w.charge(p, int(p.privileged), int(p.n), ",status,record", ",status,false")
	w.line("end")
	return w.String()
}

// A writer writes Lua. Of subject i, v<i> are its charges as they lie in
// Redis, n<i> their length in bytes, and o<i> whether a rung is full.
type writer struct {
	strings.Builder
	retain int64 // milliseconds
}

func (w *writer) line(format string, args ...any) {
	fmt.Fprintf(w, format+"\n", args...)
}

// read fetches every key at once.
func (w *writer) read(p *plan) {
	keys := int(p.n)
	if p.asks {
		keys++
	}
	names := make([]string, keys)
	for i := range names {
		names[i] = fmt.Sprintf("KEYS[%d]", i+1)
	}
	if keys > 0 {
		w.line("local v=call('MGET',%s)", strings.Join(names, ","))
	}
	if p.asks {
		w.line("local record,place,since=v[%d] or '',ARGV[1],tonumber(ARGV[2])", keys)
	}
}

// charge charges the subjects from first to last, or none.
func (w *writer) charge(p *plan, first, last int, refused, charged string) {
	w.line("local full=false")
	for i := first; i < last; i++ {
		w.open(i)
	}
	for i := first; i < last; i++ {
		w.judge(i, &p.steps[i])
	}
	w.line("if full then return {-now%s%s} end", refused, list(first, last, "v%d"))
	if first < last {
		w.line("local at=struct.pack('<I4',now%%wrap)")
	}
	for i := first; i < last; i++ {
		w.write(i, p.steps[i].ladder)
	}
	w.line("return {now%s%s}", charged, list(first, last, "c%d"))
}

// open names a subject's charges. A clock that went back stands still at the
// newest of them.
func (w *writer) open(i int) {
	w.line("local v%d=v[%d] or ''", i, i+1)
	w.line("local n%d,o%d,ahead=#v%d,false,0", i, i, i)
	w.line("if n%d>0 then ahead=(%s-now)%%wrap if ahead<2147483648 then now=now+ahead end end", i, nth(i, 1))
}

// judge finds out whether a subject has room.
func (w *writer) judge(i int, s *step) {
	for j, r := range s.ladder.Rungs() {
		w.line("if n%d>=%d and %s<=%d then o%d=true %send",
			i, 4*r.Failures, age(i, r.Failures), r.Window.Milliseconds(), i, whenFull(s.bind.Has(j)))
	}
	pace := s.ladder.Pace()
	if pace.First == 0 {
		return
	}
	w.line("if n%d>=%d and %s<%d and %s<=%d then", i, 4*pace.After,
		age(i, 1), pace.Max.Milliseconds(), age(i, pace.After), pace.Window.Milliseconds())
	w.line("local delay,more=%d,%d", pace.First.Milliseconds(), 4*pace.After+4)
	w.line("while delay<%d and n%d>=more and (now-u('<I4',v%d,n%d-more+1))%%wrap<=%d do delay,more=delay*2,more+4 end",
		pace.Max.Milliseconds(), i, i, i, pace.Window.Milliseconds())
	w.line("if delay>%d then delay=%d end", pace.Max.Milliseconds(), pace.Max.Milliseconds())
	w.line("if %s<delay then o%d=true %send", age(i, 1), i, whenFull(s.bind&failures.PaceBit != 0))
	w.line("end")
}

func whenFull(binds bool) string {
	if binds {
		return "full=true "
	}
	return ""
}

// write adds the charge to a subject's, without those that are too old to
// count or too many.
func (w *writer) write(i int, l *failures.Ladder) {
	longest := l.Longest().Milliseconds()
	most := 4 * (l.Keep() + spare - 1)
	w.line("local k%d=v%d", i, i)
	w.line("if n%d>0 and (now-u('<I4',v%d))%%wrap>%d then", i, i, longest)
	w.line("local low,high=1,n%d/4", i)
	w.line("while low<high do local mid=math.floor((low+high)/2) if (now-u('<I4',v%d,mid*4+1))%%wrap>%d then low=mid+1 else high=mid end end",
		i, longest)
	w.line("k%d=string.sub(v%d,low*4+1)", i, i)
	w.line("end")
	w.line("local c%d=o%d and v%d or #k%d/4", i, i, i, i)
	w.line("if #k%d>%d then k%d=string.sub(k%d,-%d) end", i, most, i, i, most)
	w.line("call('SET',KEYS[%d],k%d..at,'PX','%d')", i+1, i, min(longest, w.retain)+slack.Milliseconds())
}

// nth is the stamp of a subject's n-th newest charge.
func nth(i, n int) string { return fmt.Sprintf("u('<I4',v%d,n%d-%d)", i, i, 4*n-1) }

// age is how old the n-th newest charge is, in milliseconds.
func age(i, n int) string { return fmt.Sprintf("(now-%s)%%wrap", nth(i, n)) }

// list is a part of a Lua list, with a comma before every item.
func list(first, last int, format string) string {
	var b strings.Builder
	for i := first; i < last; i++ {
		fmt.Fprintf(&b, ","+format, i)
	}
	return b.String()
}
