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
	// toldClockLua takes it from the last argument: of what happened before,
	// and in tests.
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
func (p *plan) lua(clock string) string {
	w := &writer{plan: p}
	w.line("local u,pack,call,sub,find,byte,wrap=struct.unpack,struct.pack,redis.call,string.sub,string.find,string.byte,4294967296")
	w.WriteString(clock)
	w.read()
	if !p.asks {
		w.charge(0, int(p.n), "", "")
		return w.String()
	}
	w.WriteString(redisplaces.StatusLua)
	w.line("if status==1 then")
	w.charge(0, int(p.privileged), ",status,record", ",status,record")
	w.line("else")
	w.charge(int(p.privileged), int(p.n), ",status,record", ",status,false")
	w.line("end")
	return w.String()
}

// A writer writes Lua. Of book b, b<b> is all of it, l<b> the bytes of its
// sections, and in the end x<b> its sections and m<b> its charges. Of subject
// i, the charges are the n<i> bytes of s<i> that end at e<i>; i<i> is where in
// the book its section is, if it has one, and o<i> whether a rung is full.
type writer struct {
	strings.Builder
	*plan
}

func (w *writer) line(format string, args ...any) {
	fmt.Fprintf(w, format+"\n", args...)
}

// read fetches every key at once.
func (w *writer) read() {
	keys := int(w.books + w.owns)
	if w.asks {
		keys++
	}
	w.line("local v=call('MGET'%s)", list(1, keys+1, "KEYS[%d]"))
	if w.asks {
		w.line("local record,place,since=v[%d] or '',ARGV[%d],tonumber(ARGV[%d])", keys, w.owns+1, w.owns+2)
	}
}

// charge charges the subjects from first to last, or none.
func (w *writer) charge(first, last int, refused, charged string) {
	steps := w.steps[first:last]
	w.line("local full=false")
	for book := uint8(1); book <= w.books; book++ {
		if w.uses(steps, book) {
			w.line("local b%d=v[%d] or '\\0\\0' local l%d=u('<I2',b%d)", book, book, book, book)
		}
	}
	for i := first; i < last; i++ {
		w.open(i)
	}
	for i := first; i < last; i++ {
		w.judge(i)
	}
	w.line("if full then return {-now%s%s} end", refused, list(first, last, "sub(s%[1]d,e%[1]d-n%[1]d+1,e%[1]d)"))
	w.line("local at=pack('<I4',now%%wrap)")
	for book := uint8(1); book <= w.books; book++ {
		if w.uses(steps, book) {
			w.book(book, first, last)
		}
	}
	w.line("return {now%s%s}", charged, list(first, last, "c%d"))
}

func (w *writer) uses(steps []step, book uint8) bool {
	for _, s := range steps {
		if s.book == book {
			return true
		}
	}
	return false
}

// open finds a subject's charges. A clock that went back stands still at the
// newest of them.
func (w *writer) open(i int) {
	b, own := w.steps[i].book, w.steps[i].own
	if own == 0 {
		w.line("local s%d,e%d,n%d,o%d=b%d,#b%d,#b%d-2-l%d,false", i, i, i, i, b, b, b, b)
	} else {
		w.line("local s%d,o%d,i%d=v[%d] or '',false,nil", i, i, i, w.books+own)
		w.line("local e%d=#s%d local n%d=e%d", i, i, i, i)
		w.line("if n%d==0 and l%d>0 then i%d=find(b%d,ARGV[%d],3,true)", i, b, i, b, own)
		w.line("if i%d and i%d<3+l%d then s%d=b%d n%d=4*byte(b%d,i%d+8) e%d=i%d+8+n%d else i%d=nil end end",
			i, i, b, i, b, i, b, i, i, i, i, i)
	}
	w.line("if n%d>0 then local ahead=(%s-now)%%wrap if ahead<2147483648 then now=now+ahead end end", i, nth(i, 1))
}

// judge finds out whether a subject has room.
func (w *writer) judge(i int) {
	s := &w.steps[i]
	for j, r := range s.ladder.Rungs() {
		w.line("if n%d>=%d and %s<=%d then o%d=true %send",
			i, 4*r.Failures, age(i, r.Failures), r.Window.Milliseconds(), i, whenFull(s.bind.Has(j)))
	}
	pace := s.ladder.Backoff()
	if pace.First == 0 {
		return
	}
	window, longest := pace.Window.Milliseconds(), pace.Max.Milliseconds()
	w.line("if n%d>=%d and %s<%d and %s<=%d then", i, 4*pace.After, age(i, 1), longest, age(i, pace.After), window)
	w.line("local delay,more=%d,%d", pace.First.Milliseconds(), 4*pace.After+4)
	w.line("while delay<%d and n%d>=more and (now-u('<I4',s%d,e%d-more+1))%%wrap<=%d do delay,more=delay*2,more+4 end",
		longest, i, i, i, window)
	w.line("if delay>%d then delay=%d end", longest, longest)
	w.line("if %s<delay then o%d=true %send", age(i, 1), i, whenFull(s.bind&failures.BackoffBit != 0))
	w.line("end")
}

func whenFull(binds bool) string {
	if binds {
		return "full=true "
	}
	return ""
}

// book writes what is charged at one place.
func (w *writer) book(book uint8, first, last int) {
	var itself, others []int
	for i := first; i < last; i++ {
		if w.steps[i].book != book {
			continue
		}
		w.trim(i)
		if w.steps[i].own == 0 {
			itself = append(itself, i)
		} else {
			others = append(others, i)
		}
	}
	if len(itself) == 1 && len(others) == 1 {
		w.line("local whole%d", book)
		w.splice(book, itself[0], others[0])
		w.line("if whole%d then %s else", book, w.set(book, fmt.Sprintf("whole%d", book), first, last))
		defer w.line("end")
	}
	w.line("local x%d,m%d,w%d=l%d>0 and sub(b%d,3,2+l%d) or '',nil,false", book, book, book, book, book, book)
	for _, i := range itself {
		w.line("m%d,w%d=sub(b%d,f%d)..at,true", book, book, book, i)
	}
	for _, i := range others {
		w.section(i)
	}
	w.line("if w%d then %s end", book, w.set(book,
		fmt.Sprintf("pack('<I2',#x%d)..x%d..(m%d or sub(b%d,3+l%d))", book, book, book, book, book), first, last))
}

func (w *writer) set(book uint8, value string, first, last int) string {
	return fmt.Sprintf("call('SET',KEYS[%d],%s,'PX','%d')", book, value, w.lives(first, last))
}

// splice is the short way of what nearly always happens at a place: it is
// charged itself, as is one subject kept with it, whose section has room or is
// new, and nothing falls out. All of the book is made at once then: a string of
// Lua is hashed whenever one is made.
func (w *writer) splice(b uint8, itself, other int) {
	i, own := other, w.steps[other].own
	w.line("if f%d==e%d-n%d+1 and f%d==e%d-n%d+1 then", itself, itself, itself, i, i, i)
	w.line("if i%d then if l%d<=%d then whole%d=pack('<I2',l%d+4)..sub(b%d,3,i%d+7)..string.char(n%d/4+1)..sub(b%d,i%d+9,e%d)..at..sub(b%d,e%d+1)..at end",
		i, b, sectionsMost-4, b, b, b, i, i, b, i, i, b, i)
	w.line("elseif n%d==0 and l%d<=%d then whole%d=pack('<I2',l%d+%d)..ARGV[%d]..'\\1'..at..sub(b%d,3)..at end",
		i, b, sectionsMost-sectionHead-4, b, b, sectionHead+4, own, b)
	w.line("end")
}

// trim leaves out, from f<i> on, what is too old to count or too much, and
// tells how much counted. Charges that may yet be taken back push out none:
// it would be missing afterwards.
func (w *writer) trim(i int) {
	l := w.steps[i].ladder
	longest, most := l.Longest().Milliseconds(), 4*(l.Keep()+spare-1)
	w.line("local f%d=e%d-n%d+1", i, i, i)
	w.line("if n%d>0 and (now-u('<I4',s%d,f%d))%%wrap>%d then", i, i, i, longest)
	w.line("local low,high=1,n%d/4", i)
	w.line("while low<high do local mid=math.floor((low+high)/2) if (now-u('<I4',s%d,f%d+mid*4))%%wrap>%d then low=mid+1 else high=mid end end",
		i, i, longest)
	w.line("f%d=f%d+low*4", i, i)
	w.line("end")
	w.line("local c%d=o%d and sub(s%d,e%d-n%d+1,e%d) or (e%d-f%d+1)/4", i, i, i, i, i, i, i, i)
	w.line("if e%d-f%d>=%d then", i, i, most)
	w.line("local young=0")
	w.line("while e%d-f%d>=4*young and (now-u('<I4',s%d,e%d-4*young-3))%%wrap<=%d do young=young+1 end", i, i, i, i, w.pending)
	w.line("f%d=math.max(f%d,e%d-%d-4*young)", i, i, i, most-1)
	w.line("end")
}

// section writes a subject kept with its place: into the book, or where that
// has no room for it to a key of its own.
func (w *writer) section(i int) {
	b, own := w.steps[i].book, w.steps[i].own
	w.line("local k%d=sub(s%d,f%d,e%d)..at", i, i, i, i)
	w.line("local own%d=n%d>0 and not i%d", i, i, i)
	w.line("if i%d then local j=find(x%d,ARGV[%d],1,true) x%d=sub(x%d,1,j-1)..sub(x%d,j+9+n%d) w%d=true end", i, b, own, b, b, b, i, b)
	w.line("if not own%d and #x%d+9+#k%d>%d then", i, b, i, sectionsMost)
	w.line("local live,j='',1")
	w.line("while j<=#x%d do local size=9+4*byte(x%d,j+8) if (now-u('<I4',x%d,j+size-4))%%wrap<=%d then live=live..sub(x%d,j,j+size-1) end j=j+size end",
		b, b, b, w.lives(0, int(w.n))-slack.Milliseconds(), b)
	w.line("w%d=w%d or #live<#x%d x%d=live own%d=#x%d+9+#k%d>%d", b, b, b, b, i, b, i, sectionsMost)
	w.line("end")
	w.line("if own%d then call('SET',KEYS[%d],k%d,'PX','%d')", i, w.books+own, i, w.lives(i, i+1))
	w.line("else x%d,w%d=ARGV[%d]..string.char(#k%d/4)..k%d..x%d,true end", b, b, own, i, i, b)
}

// lives is how long a key with the subjects in it lives, in milliseconds.
func (w *writer) lives(first, last int) int64 {
	longest := w.retain
	for _, s := range w.steps[first:last] {
		longest = max(longest, s.ladder.Longest().Milliseconds())
	}
	return longest + slack.Milliseconds()
}

// nth is the stamp of a subject's n-th newest charge.
func nth(i, n int) string { return fmt.Sprintf("u('<I4',s%d,e%d-%d)", i, i, 4*n-1) }

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
