package simulate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"time"

	"authguard/internal/replay"
)

// Run simulates a scenario once under each setup and each of the other defenses. tell reports progress; it may be nil.
func Run(ctx context.Context, s Scenario, setups []replay.Setup, others []string,
	tell func(done, of int)) (*Report, error) {
	report := &Report{Scenario: s, Results: make([]Result, len(setups)+len(others))}
	errs := make([]error, len(report.Results))
	var mu sync.Mutex
	var all sync.WaitGroup
	done, turns := 0, make(chan struct{}, runtime.GOMAXPROCS(0))
	for i := range report.Results {
		all.Go(func() {
			turns <- struct{}{}
			defer func() { <-turns }()
			var d replay.Defense
			r := &report.Results[i]
			if i < len(setups) {
				r.Name = setups[i].Name
				d, errs[i] = replay.NewSite(setups[i], start().Add(-settling))
			} else {
				r.Name = others[i-len(setups)]
				d, errs[i] = newDefense(r.Name)
			}
			if errs[i] == nil {
				errs[i] = r.simulate(ctx, s, d)
			}
			if errs[i] != nil {
				errs[i] = fmt.Errorf("%s: %w", r.Name, errs[i])
			}
			mu.Lock()
			defer mu.Unlock()
			if done++; tell != nil {
				tell(done, len(report.Results))
			}
		})
	}
	all.Wait()
	return report, errors.Join(errs...)
}

// step is an attempt, or a new password.
type step struct {
	replay.Ask
	kind   stepKind
	person int // the user, or the target of a guess; -1: none
	word   int // the password
	first  time.Time
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
	*town
	replay.Engine[step]
	*Result
	seen map[machine]bool // known clients of the users
	out  map[int]time.Time
	met  map[int]bool
	lost map[string]bool
	// came is the number of users who have logged in at least once; only Rush lets others come later.
	came int
}

// settling is the time before the start in which every user logs in once.
const settling = 24 * time.Hour

func (r *Result) simulate(ctx context.Context, s Scenario, d replay.Defense) error {
	t := newTown(s.People, s.Seed)
	t.buildList(&s)
	run := &run{Scenario: s, town: t, Result: r,
		seen: map[machine]bool{}, out: map[int]time.Time{}, met: map[int]bool{}, lost: map[string]bool{}}
	if err := run.settle(d); err != nil {
		return err
	}
	run.Engine = replay.NewEngine[step](d, start(), time.Hour)
	var raids []*raid
	for i, a := range s.Attackers {
		raids = append(raids, t.raid(a, i, s.Seed))
	}
	peak := t.perMinute()
	for minute := range s.Days * 24 * 60 {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err := run.minute(start().Add(time.Duration(minute)*time.Minute), peak, raids); err != nil {
			return err
		}
	}
	r.People, r.Lost, r.Series = len(run.met), len(run.lost), run.Buckets
	for _, since := range run.out { // users who are still kept out
		r.LongestOut = max(r.LongestOut, run.Now.Sub(since))
	}
	return nil
}

// settle lets every user log in with both devices before the start, so that they have known clients.
func (r *run) settle(d replay.Defense) error {
	if r.Rush > 0 {
		return nil // all clients are unknown
	}
	r.Engine.Defense, r.came = d, r.Accounts
	for i := range r.names {
		d.Advance(start().Add(time.Duration(i)*settling/time.Duration(r.Accounts) - settling))
		s := step{Ask: r.homeOf(i), word: r.words[i]}
		s.Right, s.Code = true, r.leaked(s.word)
		for _, s.Device = range []string{s.Device, second(s.Device)} {
			if answer, err := r.try(&s); err != nil || !answer.In {
				return cmp.Or(err, errors.New("simulate: people cannot even log in once"))
			}
			r.know(&s)
		}
	}
	return nil
}

// minute adds the steps of a minute, and runs those that are due.
func (r *run) minute(from time.Time, peak float64, raids []*raid) error {
	r.people(from, peak)
	end := from.Add(time.Minute)
	for _, raid := range raids {
		n := raid.due(end.Sub(start())) - raid.done
		for i := range n {
			r.Add(from.Add(time.Duration(i)*time.Minute/time.Duration(n)), raid.guess())
		}
	}
	if err := r.Until(end, r.happen); err != nil {
		return err
	}
	r.Advance(end)
	if r.Sample(end.Add(-time.Nanosecond)) {
		r.ModeOn += time.Minute
	}
	return nil
}

func (r *run) people(minute time.Time, peak float64) {
	since := minute.Sub(start())
	if from := since - 9*time.Hour; r.Rush > 0 && from >= 0 && from < r.Rush {
		r.rush(minute, int(from/time.Minute))
	}
	for range poisson(r.r, peak*r.busy(minute)) {
		v := r.visit()
		if v.person >= r.came {
			continue
		}
		r.visits(minute.Add(time.Duration(r.r.Int64N(int64(time.Minute)))), v)
	}
	for i := range r.Stale {
		if offset := time.Duration(i) * r.Every / time.Duration(r.Stale); since%max(r.Every, time.Minute) == 0 {
			for at := offset; at < time.Minute; at += r.Every {
				ask := replay.Ask{Account: r.names[i], Address: r.homes[i]}
				r.Add(minute.Add(at), step{Ask: ask, kind: staleWord, person: i, word: -2 - i})
			}
		}
	}
}

// rush adds the logins of a minute of the first day.
func (r *run) rush(minute time.Time, number int) {
	all := int(r.Rush / time.Minute)
	for end := r.Accounts * (number + 1) / all; r.came < end; r.came++ {
		person := r.came
		v := visit{Ask: r.homeOf(person), person: person}
		v.Address = r.crowd
		if r.r.Float64() < 0.3 { // three in ten new passwords are mistyped
			v.wrong = 1
		}
		r.visits(minute.Add(time.Duration(r.r.Int64N(int64(time.Minute)))), v)
	}
}

func (r *run) visits(at time.Time, v visit) {
	for range v.wrong {
		r.Add(at, step{Ask: v.Ask, kind: wrongWord, person: v.person, word: r.typo()})
		at = at.Add(time.Duration(5+r.r.IntN(10)) * time.Second)
	}
	if v.reset {
		at = at.Add(2 * time.Minute)
		r.Add(at, step{kind: newWord, person: v.person})
	}
	r.Add(at, step{Ask: v.Ask, kind: rightWord, person: v.person, first: at})
}

func (r *run) try(s *step) (replay.Answer, error) {
	s.Password, s.WithoutEmail, s.Leaked = fmt.Sprint("word", s.word), r.WithoutEmail, r.leaked(s.word)
	return r.Try(s.Ask)
}

// happen runs a step.
func (r *run) happen(at time.Time, s step) error {
	r.Advance(at)
	switch s.kind {
	case newWord:
		r.words[s.person] = r.next
		r.next++
		return nil
	case rightWord:
		s.word, s.Right = r.words[s.person], true
		s.known = r.knows(&s)
	case guessed: // users change passwords
		s.Right = s.person >= 0 && r.words[s.person] == s.word
	}
	answer, err := r.try(&s)
	if err != nil {
		return err
	}
	switch s.kind {
	case guessed:
		r.guess(at, &s, &answer)
	case rightWord:
		r.login(at, s, &answer)
	case wrongWord, staleWord:
		r.Slips++
		if answer.Challenged && s.kind == wrongWord {
			r.Challenges++
			r.met[s.person] = true
		}
	}
	return nil
}

func (r *run) guess(at time.Time, s *step, answer *replay.Answer) {
	r.Guesses++
	r.Checked += number(answer.Checked)
	r.Solved += number(answer.Challenged && s.Solves)
	r.Right += number(s.Right)
	if answer.In {
		r.Let++
		r.lost[s.Account] = true
	}
	r.Guess(at, answer.Checked, answer.In)
}

func number(yes bool) int {
	if yes {
		return 1
	}
	return 0
}

const patience, mailed, mostAgain = 15 * time.Minute, time.Minute, 100

func (r *run) login(at time.Time, s step, answer *replay.Answer) {
	r.Logins += number(s.again == 0)
	if answer.Challenged && !s.Code {
		r.Challenges++
		r.KnownChallenged += number(s.known)
		r.met[s.person] = true
	}
	if answer.In {
		r.know(&s)
		r.LongestOut = max(r.LongestOut, at.Sub(s.first))
		if since, ok := r.out[s.person]; ok {
			r.LongestOut = max(r.LongestOut, at.Sub(since))
			delete(r.out, s.person)
		}
		r.Login(at, s.again > 0 || answer.Challenged)
		return
	}
	r.met[s.person] = true
	if s.again++; s.again > mostAgain {
		return
	}
	wait := answer.Wait()
	switch {
	case wait > 0:
		r.Delayed += number(s.again == 1)
	case answer.Code && !s.Code:
		r.WaysIn++
		r.KnownStopped += number(s.known)
		s.Code, wait = true, mailed
	default:
		if _, already := r.out[s.person]; !already {
			r.out[s.person] = s.first
			r.Stopped++
			r.KnownStopped += number(s.known)
		}
		wait = patience
	}
	r.Add(at.Add(wait), s)
}

// know records a user's client, by IP address and by browser; knows looks it up.
func (r *run) know(s *step) {
	for _, m := range machines(s.Ask) {
		r.seen[m] = true
	}
}

func (r *run) knows(s *step) bool {
	for _, m := range machines(s.Ask) {
		if r.seen[m] {
			return true
		}
	}
	return false
}
