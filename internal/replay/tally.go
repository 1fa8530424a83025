package replay

import (
	"cmp"
	"container/heap"
	"math/rand/v2"
	"net/netip"
	"slices"
	"time"

	"github.com/dchest/siphash"
	lru "github.com/hashicorp/golang-lru/v2"

	"authguard/guard"
	"authguard/internal/tops"
)

// run is one policy's run through the log. It is not safe for concurrent use.
type run struct {
	*Site
	options Options
	sum     Result
	again   retries // of delayed users
	open    [2]map[uint64]trouble
	turned  time.Time // last rotation of open
	people  map[uint64]struct{}
	guessed [2]*tops.Top[int64] // checked guesses, by account and by address
	series  series
	devices *lru.Cache[string, string] // device cookie by client ID
	pair    []byte                     // reused buffer
}

// mendWithin is how soon a login must follow wrong passwords to make them corrected typos. It distinguishes users from
// attackers as far as a log can.
const mendWithin = 24 * time.Hour

// mostPairs pairs of a day, mostPeople and mostDevices are kept. Further pairs are ignored, and Result.Bounded reports
// it.
const mostPairs, mostPeople, mostDevices = 500_000, 1_000_000, 100_000

// trouble is what happened to an account and IP pair before its login.
type trouble struct {
	first, last int64 // unix seconds
	checked     uint32
	met         [3]uint32 // by hindrance
}

type hindrance int

const (
	challenged hindrance = iota
	delayed
	refused
)

// hindranceOf returns the effect of an answer. A solved challenge counts.
func hindranceOf(a *Answer) (h hindrance, met bool) {
	switch a.Action {
	case guard.Delay:
		return delayed, true
	case guard.Challenge:
		return challenged, true
	case guard.Proceed:
		return challenged, a.Challenged
	}
	return refused, true
}

type retry struct {
	Attempt
	since  time.Time
	number int
}

func newRun(setup Setup, start time.Time, named bool, o Options) (*run, error) {
	if !named { // each IP address counts as an account then, and has its own limits
		setup.Policy.Account = nil
	}
	site, err := NewSite(setup, start)
	if err != nil {
		return nil, err
	}
	r := &run{Site: site, options: o, turned: start, people: map[uint64]struct{}{}, series: newSeries(start)}
	if r.devices, err = lru.New[string, string](mostDevices); err != nil {
		return nil, err
	}
	for i := range r.open {
		r.open[i] = map[uint64]trouble{}
	}
	for i := range r.guessed {
		r.guessed[i] = tops.Seeded[int64](256, rand.NewPCG(1, uint64(i)))
	}
	return r, nil
}

func (r *run) all(attempts []Attempt) error {
	for i := range attempts {
		if err := r.until(attempts[i].At); err != nil {
			return err
		}
		if err := r.attempt(retry{Attempt: attempts[i], since: attempts[i].At}); err != nil {
			return err
		}
	}
	return nil
}

func (r *run) until(at time.Time) error {
	for len(r.again) > 0 && !r.again[0].At.After(at) {
		next := heap.Pop(&r.again).(retry)
		if err := r.attempt(next); err != nil {
			return err
		}
	}
	return nil
}

func (r *run) attempt(a retry) error {
	if a.At.After(r.now) {
		if minute := r.now.Unix() / 60; minute != a.At.Unix()/60 {
			r.series.pressure(r.now, r.Pressure())
		}
		r.Advance(a.At)
		r.note()
	}
	account := a.Account
	if !a.Named {
		account = "at:" + a.Address.String() // already a canonical name
	}
	right := a.Outcome == Succeeded
	device, _ := r.devices.Get(a.Device)
	answer, err := r.Try(Ask{
		Account: account, Address: a.Address, Keeps: a.Device != "", Device: device, Client: a.Client, Right: right,
		Solves: r.options.Solving == Everybody || right && r.options.Solving == People,
	})
	if err != nil {
		return err
	}
	r.note()
	if answer.Device != "" {
		r.devices.Add(a.Device, answer.Device)
	}
	key := r.pairOf(cmp.Or(answer.Account, account), a.Address)
	if right {
		r.login(&a, &answer, key)
	} else {
		r.guess(&a, &answer, key)
	}
	return nil
}

func (r *run) guess(a *retry, answer *Answer, key uint64) {
	g := &r.sum.Guesses
	h, met := hindranceOf(answer)
	checked := answer.Action == guard.Proceed
	if g.All++; checked {
		g.Checked++
		r.through(a)
	} else {
		g.Stopped[h]++
		r.because(answer)
	}
	r.series.guess(a.At, checked)
	r.trouble(key, a.At, func(t *trouble) {
		if checked {
			t.checked++
		}
		if met {
			t.met[h]++
		}
	})
}

// through counts a checked guess for its account and IP address.
func (r *run) through(a *retry) {
	names := []string{a.Account, addressText(a.Address)}
	for i, top := range r.guessed {
		if i == 0 && !a.Named {
			continue
		}
		if n := top.Of(names[i]); n != nil {
			*n++
		}
	}
}

func (r *run) because(answer *Answer) {
	if len(answer.Reasons) > 0 {
		if r.sum.Reasons == nil {
			r.sum.Reasons = map[string]int64{}
		}
		r.sum.Reasons[answer.Reasons[0].Code()]++
	}
}

// login counts an attempt with the right password.
func (r *run) login(a *retry, answer *Answer, key uint64) {
	h, met := hindranceOf(answer)
	if met && h == delayed && a.number < mostRetries {
		again := *a
		again.At, again.number = a.At.Add(max(answer.RetryAfter, time.Second)), a.number+1
		heap.Push(&r.again, again)
		r.trouble(key, a.At, func(t *trouble) { t.met[delayed]++ })
		return
	}
	l := &r.sum.Logins
	before := r.mended(key, a.At)
	if met {
		before.met[h]++
	}
	l.All++
	r.sum.Guesses.Slips += int64(before.checked)
	waited := a.At.Sub(a.since)
	if l.LongestWait = max(l.LongestWait, waited); answer.Known {
		l.Known++
	}
	hindered := before.met != [3]uint32{}
	for i, n := range before.met {
		if n > 0 {
			l.Met[i]++
		}
	}
	if !answer.In {
		l.KeptOut++
		r.because(answer)
	}
	r.series.login(a.At, hindered)
	if !hindered {
		return
	}
	l.Hindered++
	if _, ok := r.people[key]; !ok && len(r.people) < mostPeople {
		r.people[key] = struct{}{}
	}
	r.worst(a, answer, before, waited)
}

const mostRetries = 20

func (r *run) worst(a *retry, answer *Answer, before trouble, waited time.Duration) {
	c := Case{
		Account: a.Account, Address: addressText(a.Address), At: a.At, Since: time.Unix(before.first, 0).UTC(),
		Challenged: int(before.met[challenged]), Delayed: int(before.met[delayed]), Refused: int(before.met[refused]),
		Waited: waited, KeptOut: !answer.In, Reasons: answer.Reasons.Codes(),
	}
	if before.first == 0 {
		c.Since = a.since
	}
	worst := &r.sum.Hindered
	i := slices.IndexFunc(*worst, func(o Case) bool { return o.Account == c.Account && o.Address == c.Address })
	switch {
	case i < 0:
		*worst = append(*worst, c)
	case c.worse((*worst)[i]) < 0:
		(*worst)[i] = c
	}
	slices.SortStableFunc(*worst, Case.worse)
	*worst = (*worst)[:min(len(*worst), r.options.Cases)]
}

// worse compares two cases; the worse one is smaller.
func (c Case) worse(o Case) int {
	kept := func(c Case) int {
		if c.KeptOut {
			return 1
		}
		return 0
	}
	return -cmp.Or(cmp.Compare(kept(c), kept(o)), cmp.Compare(c.Refused, o.Refused), cmp.Compare(c.Waited, o.Waited),
		cmp.Compare(c.Delayed, o.Delayed), cmp.Compare(c.Challenged, o.Challenged), o.At.Compare(c.At))
}

func (r *run) trouble(key uint64, at time.Time, change func(*trouble)) {
	r.turn(at)
	t, known := r.open[0][key]
	if !known {
		if t, known = r.open[1][key]; known {
			delete(r.open[1], key)
		}
		if len(r.open[0]) >= mostPairs {
			r.sum.Bounded = true
			return
		}
	}
	if now := at.Unix(); t.first == 0 || now-t.last > int64(mendWithin/time.Second) {
		t = trouble{first: now}
	}
	t.last = at.Unix()
	change(&t)
	r.open[0][key] = t
}

// mended returns and removes what happened to a pair that logs in now.
func (r *run) mended(key uint64, at time.Time) (t trouble) {
	r.turn(at)
	for _, open := range r.open {
		if found, ok := open[key]; ok {
			delete(open, key)
			if at.Unix()-found.last <= int64(mendWithin/time.Second) {
				t = found
			}
		}
	}
	return t
}

func (r *run) turn(at time.Time) {
	for at.Sub(r.turned) >= mendWithin {
		clear(r.open[1]) // reuse its memory
		r.open[0], r.open[1] = r.open[1], r.open[0]
		r.turned = r.turned.Add(mendWithin)
		if at.Sub(r.turned) >= 2*mendWithin {
			r.turned = at.Truncate(time.Second)
			clear(r.open[1])
		}
	}
}

func (r *run) note() {
	for _, s := range r.switches {
		r.series.level(s.At, s.On)
		switch {
		case s.On && !s.WasOn:
			r.sum.Mode = append(r.sum.Mode, Span{From: s.At, Pressure: s.FailureRate})
		case s.WasOn && !s.On:
			r.sum.Mode[len(r.sum.Mode)-1].To = s.At
		}
	}
	r.switches = r.switches[:0]
}

// pairOf returns the key of an account and IP pair; IPv6 addresses count as their /64.
func (r *run) pairOf(account string, address netip.Addr) uint64 {
	one := guard.OneAddress(address).Addr().As16()
	r.pair = append(append(r.pair[:0], one[:]...), account...)
	return siphash.Hash(3, 4, r.pair)
}

type retries []retry

func (r retries) Len() int           { return len(r) }
func (r retries) Less(i, j int) bool { return r[i].At.Before(r[j].At) }
func (r retries) Swap(i, j int)      { r[i], r[j] = r[j], r[i] }
func (r *retries) Push(x any)        { *r = append(*r, x.(retry)) }
func (r *retries) Pop() any {
	old := *r
	last := old[len(old)-1]
	*r = old[:len(old)-1]
	return last
}
