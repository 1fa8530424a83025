package replay

import (
	"cmp"
	"math/rand/v2"
	"net/netip"
	"slices"
	"time"

	"github.com/dchest/siphash"
	"github.com/hashicorp/golang-lru/v2/simplelru"

	"authguard/guard"
	"authguard/internal/events"
)

// run is one policy's run through the log. It is not safe for concurrent use.
type run struct {
	Engine[retry]
	site    *Site
	options Options
	sum     Result
	open    *simplelru.LRU[uint64, trouble] // pairs without a login yet
	people  map[uint64]struct{}
	guessed [2]*events.Top[int64] // checked guesses, by account and by address
	pair    []byte                // reused buffer
}

// mendWithin is how soon a login must follow wrong passwords to make them corrected typos. It distinguishes users from
// attackers as far as a log can.
const mendWithin = 24 * time.Hour

// mostPairs account and IP pairs and mostPeople affected users are kept. Result.Bounded reports lost pairs.
const mostPairs, mostPeople = 500_000, 1_000_000

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
	r := &run{Engine: NewEngine[retry](site, start, time.Minute), site: site, options: o, people: map[uint64]struct{}{}}
	r.open, err = simplelru.NewLRU[uint64, trouble](mostPairs, nil)
	for i := range r.guessed {
		r.guessed[i] = events.SeededTop[int64](256, rand.NewPCG(1, uint64(i)))
	}
	return r, err
}

func (r *run) all(attempts []Attempt) error {
	for _, a := range attempts {
		if err := r.Until(a.At.Add(1), r.attempt); err != nil { // delayed users first
			return err
		}
		if err := r.attempt(a.At, retry{Attempt: a, since: a.At}); err != nil {
			return err
		}
	}
	return nil
}

func (r *run) attempt(at time.Time, a retry) error {
	a.At = at
	if at.Unix()/60 != r.Now.Unix()/60 {
		r.Sample(r.Now)
	}
	r.Advance(at)
	account := a.Account
	if !a.Named {
		account = "at:" + a.Address.String() // already a canonical name
	}
	right := a.Outcome == Succeeded
	answer, err := r.Try(Ask{
		Account: account, Address: a.Address, Device: a.Device, Client: a.Client, Right: right,
		Solves: r.options.Solving == AllSolve || right && r.options.Solving == UsersSolve,
	})
	if err != nil {
		return err
	}
	r.note()
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
	checked := answer.Checked
	if g.All++; checked {
		g.Checked++
		r.through(a)
	} else {
		g.Stopped[h]++
		r.because(answer)
	}
	r.Guess(a.At, checked, false)
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
		again.number++
		r.Add(a.At.Add(answer.Wait()), again)
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
	r.Login(a.At, hindered)
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
	return -cmp.Or(cmp.Compare(one(c.KeptOut), one(o.KeptOut)), cmp.Compare(c.Refused, o.Refused),
		cmp.Compare(c.Waited, o.Waited), cmp.Compare(c.Delayed, o.Delayed),
		cmp.Compare(c.Challenged, o.Challenged), o.At.Compare(c.At))
}

func (r *run) trouble(key uint64, at time.Time, change func(*trouble)) {
	t, _ := r.open.Peek(key)
	if !t.within(at) {
		t = trouble{first: at.Unix()}
	}
	t.last = at.Unix()
	change(&t)
	if _, oldest, _ := r.open.GetOldest(); r.open.Add(key, t) && oldest.within(at) {
		r.sum.Bounded = true
	}
}

// mended returns and removes what happened to a pair that logs in now.
func (r *run) mended(key uint64, at time.Time) (t trouble) {
	if t, _ = r.open.Peek(key); !t.within(at) {
		t = trouble{}
	}
	r.open.Remove(key)
	return t
}

// within reports whether the last attempt is recent enough for a corrected typo.
func (t trouble) within(now time.Time) bool {
	return now.Unix()-t.last <= int64(mendWithin/time.Second)
}

func (r *run) note() {
	for _, s := range r.site.switches {
		r.Level(s.At, s.On)
		switch {
		case s.On && !s.WasOn:
			r.sum.Mode = append(r.sum.Mode, Span{From: s.At, Pressure: s.FailureRate})
		case s.WasOn && !s.On:
			r.sum.Mode[len(r.sum.Mode)-1].To = s.At
		}
	}
	r.site.switches = r.site.switches[:0]
}

// pairOf returns the key of an account and IP pair; IPv6 addresses count as their /64.
func (r *run) pairOf(account string, address netip.Addr) uint64 {
	one := guard.OneAddress(address).Addr().As16()
	r.pair = append(append(r.pair[:0], one[:]...), account...)
	return siphash.Hash(3, 4, r.pair)
}
