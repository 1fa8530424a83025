package simulate

import (
	"cmp"
	"container/heap"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"runtime"
	"sync"
	"time"

	"authguard/internal/replay"
)

// Run simulates a scenario once under each setup and each of the other defenses. tell reports progress; it may be nil.
func Run(ctx context.Context, s Scenario, setups []replay.Setup, others []string,
	tell func(done, of int)) (*Report, error) {
	report := &Report{Scenario: s, Results: make([]Result, len(setups)+len(others))}
	var errs []error
	var mu sync.Mutex
	done := 0
	var all sync.WaitGroup
	turns := make(chan struct{}, runtime.GOMAXPROCS(0))
	for i := range report.Results {
		all.Go(func() {
			turns <- struct{}{}
			defer func() { <-turns }()
			var d defence
			var err error
			name := ""
			if i < len(setups) {
				name = setups[i].Name
				d, err = newOurs(setups[i], start())
			} else {
				name = others[i-len(setups)]
				d, err = newDefence(name)
			}
			var r Result
			if err == nil {
				r, err = happen(ctx, s, d)
			}
			mu.Lock()
			defer mu.Unlock()
			r.Name, report.Results[i] = name, r
			report.Results[i].Name = name
			if done++; tell != nil {
				tell(done, len(report.Results))
			}
			if err != nil {
				errs = append(errs, fmt.Errorf("%s: %w", name, err))
			}
		})
	}
	all.Wait()
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return report, nil
}

type step struct {
	at     time.Time
	order  int // order of simultaneous steps
	person int // the user; -1: an attacker
	kind   stepKind
	client client
	first  time.Time // start of its login
	again  int
	known  bool // from a known client
}

type stepKind uint8

const (
	wrongWord stepKind = iota // a user's wrong password
	rightWord
	newWord // a user chooses a new password
	staleWord
	guessed
	ownWord
)

type run struct {
	Scenario
	defence
	*town
	now    time.Time
	queue  steps
	order  int
	result Result
	seen   map[machine]bool // known clients of the users
	out    map[int]time.Time
	met    map[int]bool
	lost   map[string]bool
}

func happen(ctx context.Context, s Scenario, d defence) (Result, error) {
	t := newTown(s.People, s.Seed)
	r := &run{Scenario: s, defence: d, town: t, now: start(), seen: map[machine]bool{}, out: map[int]time.Time{},
		met: map[int]bool{}, lost: map[string]bool{}}
	r.advance(start())
	if err := r.settle(); err != nil {
		return r.result, err
	}
	var raids []*raid
	for i, a := range s.Attackers {
		raids = append(raids, t.raid(a, i, s.Seed))
	}
	peak := t.perMinute()
	end := start().Add(time.Duration(s.Days) * 24 * time.Hour)
	for minute := start(); minute.Before(end) && ctx.Err() == nil; minute = minute.Add(time.Minute) {
		r.people(minute, peak)
		for _, raid := range raids {
			r.raid(minute, raid)
		}
		if err := r.until(minute.Add(time.Minute)); err != nil {
			return r.result, err
		}
	}
	r.result.People, r.result.Lost = len(r.met), len(r.lost)
	for _, since := range r.out { // users who are still kept out
		r.result.LongestOut = max(r.result.LongestOut, r.now.Sub(since))
	}
	return r.result, ctx.Err()
}

// settle lets every user log in once before the start, so that they have known clients.
func (r *run) settle() error {
	if r.Rush > 0 {
		return nil // all clients are unknown
	}
	for i, name := range r.names {
		c := client{account: name, address: r.homes[i], device: r.device[i], word: r.words[i], right: true, solves: true}
		if v, err := r.try(&c); err != nil || !v.in {
			return cmp.Or(err, errors.New("simulate: people cannot even log in once"))
		}
		r.know(i, &c)
	}
	return nil
}

func (r *run) people(minute time.Time, peak float64) {
	if r.Rush > 0 && minute.Sub(start()) >= 9*time.Hour && minute.Sub(start()) < 9*time.Hour+r.Rush {
		r.rush(minute)
	}
	for range poisson(r.r, peak*r.busy(minute)) {
		v := r.visit()
		r.add(minute.Add(time.Duration(r.r.Int64N(int64(time.Minute)))), v)
	}
	for i := range r.Stale {
		if offset := time.Duration(i) * r.Every / time.Duration(r.Stale); minute.Sub(start())%max(r.Every, time.Minute) == 0 {
			for at := offset; at < time.Minute; at += r.Every {
				c := client{account: r.names[i], address: r.homes[i], word: -2 - i}
				r.push(step{at: minute.Add(at), person: i, kind: staleWord, client: c})
			}
		}
	}
}

// rush adds the logins of a minute of the first day.
func (r *run) rush(minute time.Time) {
	from := int(minute.Sub(start().Add(9*time.Hour)) / time.Minute)
	all := int(r.Rush / time.Minute)
	for person := r.Accounts * from / all; person < r.Accounts*(from+1)/all; person++ {
		v := visit{person: person, client: client{account: r.names[person], address: r.crowd, device: r.device[person],
			solves: true}}
		if r.r.Float64() < 0.3 { // three in ten new passwords are mistyped
			v.wrong = 1
		}
		r.add(minute.Add(time.Duration(r.r.Int64N(int64(time.Minute)))), v)
	}
}

func (r *run) add(at time.Time, v visit) {
	for range v.wrong {
		c := v.client
		c.word = r.typo()
		r.push(step{at: at, person: v.person, kind: wrongWord, client: c})
		at = at.Add(time.Duration(5+r.r.IntN(10)) * time.Second)
	}
	if v.reset {
		at = at.Add(2 * time.Minute)
		r.push(step{at: at, person: v.person, kind: newWord, client: v.client})
	}
	r.push(step{at: at, person: v.person, kind: rightWord, client: v.client, first: at})
}

func (r *run) raid(minute time.Time, raid *raid) {
	n := raid.due(minute.Add(time.Minute).Sub(start())) - raid.done
	for i := range n {
		c, own := raid.guess()
		kind := guessed
		if own {
			kind = ownWord
		}
		r.push(step{at: minute.Add(time.Duration(i) * time.Minute / time.Duration(n)), person: -1, kind: kind, client: c})
	}
}

func (r *run) push(t step) {
	t.order = r.order
	r.order++
	heap.Push(&r.queue, t)
}

func (r *run) until(end time.Time) error {
	for len(r.queue) > 0 && r.queue[0].at.Before(end) {
		t := heap.Pop(&r.queue).(step)
		if t.at.After(r.now) {
			r.now = t.at
			r.advance(t.at)
		}
		if err := r.happens(&t); err != nil {
			return err
		}
	}
	r.now = end
	r.advance(end)
	var pressure replay.Nearest
	if watched, ok := r.defence.(interface{ Pressure() replay.Nearest }); ok {
		pressure = watched.Pressure()
	}
	r.result.minute(end, r.mode(), pressure)
	return nil
}

func (r *run) happens(t *step) error {
	switch t.kind {
	case newWord:
		r.words[t.person] = r.next
		r.next++
		return nil
	case rightWord:
		t.client.word, t.client.right = r.words[t.person], true
		t.known = r.knows(t.person, &t.client)
	case guessed:
		t.client.right = r.isRight(&t.client)
	}
	v, err := r.try(&t.client)
	if err != nil {
		return err
	}
	switch t.kind {
	case guessed:
		r.guess(t, &v)
	case rightWord:
		r.login(t, &v)
	case wrongWord, staleWord:
		r.result.Slips++
		if v.challenged && t.kind == wrongWord {
			r.result.Challenges++
			r.met[t.person] = true
		}
	}
	return nil
}

// isRight reports whether a guess is right now: users change passwords.
func (r *run) isRight(c *client) bool { return c.target >= 0 && r.words[c.target] == c.word }

func (r *run) guess(t *step, v *verdict) {
	g := &r.result
	g.Guesses++
	if v.checked {
		g.Checked++
	}
	if v.challenged && t.client.solves {
		g.Solved++
	}
	if t.client.right {
		g.Right++
	}
	if v.in {
		g.Let++
		r.lost[t.client.account] = true
	}
	g.at(t.at).guess(v)
}

const patience, mailed, mostAgain = 15 * time.Minute, time.Minute, 100

func (r *run) login(t *step, v *verdict) {
	g := &r.result
	if t.again == 0 {
		g.Logins++
	}
	if v.challenged && !t.client.pass {
		if g.Challenges++; t.known {
			g.KnownChallenged++
		}
		r.met[t.person] = true
	}
	if v.in {
		r.know(t.person, &t.client)
		g.LongestOut = max(g.LongestOut, t.at.Sub(t.first))
		if since, ok := r.out[t.person]; ok {
			g.LongestOut = max(g.LongestOut, t.at.Sub(since))
			delete(r.out, t.person)
		}
		g.at(t.at).login(t.again > 0 || v.challenged)
		return
	}
	r.met[t.person] = true
	if t.again >= mostAgain {
		return
	}
	again := *t
	again.again++
	switch {
	case v.wait > 0:
		if t.again == 0 {
			g.Delayed++
		}
		again.at = t.at.Add(v.wait)
	case v.pass && !t.client.pass:
		if g.WaysIn++; t.known {
			g.KnownStopped++
		}
		again.client.pass = true
		again.at = t.at.Add(mailed)
	default:
		if _, already := r.out[t.person]; !already {
			r.out[t.person] = t.first
			if g.Stopped++; t.known {
				g.KnownStopped++
			}
		}
		again.at = t.at.Add(patience)
	}
	r.push(again)
}

// know records a user's client, by IP address and by browser; knows looks it up.
func (r *run) know(person int, c *client) {
	r.seen[machine{c.account, c.address, 0}] = true
	if c.device > 0 {
		r.seen[machine{c.account, netip.Addr{}, c.device}] = true
	}
}

func (r *run) knows(person int, c *client) bool {
	return r.seen[machine{c.account, c.address, 0}] || c.device > 0 && r.seen[machine{c.account, netip.Addr{}, c.device}]
}

type steps []step

func (q steps) Len() int { return len(q) }
func (q steps) Less(i, j int) bool {
	return cmp.Or(q[i].at.Compare(q[j].at), cmp.Compare(q[i].order, q[j].order)) < 0
}
func (q steps) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q *steps) Push(x any)   { *q = append(*q, x.(step)) }
func (q *steps) Pop() any {
	old := *q
	last := old[len(old)-1]
	*q = old[:len(old)-1]
	return last
}
