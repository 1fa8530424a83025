// Package trial tries policies on login attempts that were recorded, or made up: each
// through the real guard, on a clock of its own, in memory. It answers what limits
// would have done to people and to attackers, before anybody is refused.
package trial

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"time"

	"authguard/captchamode"
	"authguard/captchamode/challenge"
	"authguard/failures"
	"authguard/guard"
	"authguard/internal/report"
	"authguard/trusted"
)

// A Setup is what is tried.
type Setup struct {
	Name   string
	Policy guard.Policy
	Mode   captchamode.Config
	// Lists are the named lists' ranges; entries of the allow and block lists too. Nil:
	// there are none.
	Lists *guard.Lists
}

// A Site is one policy in force, with its own clock, counters and known places. It is
// not safe for concurrent use.
type Site struct {
	setup    Setup
	guard    *guard.Guard
	mode     *captchamode.Mode
	counters *failures.Memory
	now      time.Time
	swept    time.Time
	switches []captchamode.Switch // since they were taken
}

// counterBytes bounds the counters of a Site, and knownAccounts the accounts whose places
// it knows.
const counterBytes, knownAccounts = 128 << 20, 1 << 20

// secret keys the digests. It is no secret: the same input gives the same report.
var secret = []byte("every trial counts under the same key")

// NewSite makes a site at a moment. Nothing has happened on it yet.
func NewSite(setup Setup, start time.Time) (*Site, error) {
	s := &Site{setup: setup, now: start, swept: start}
	clock := func() time.Time { return s.now }
	var err error
	s.counters, err = failures.NewMemory(failures.Config{
		MaxBytes: counterBytes, Retain: setup.Policy.Retain(), PendingFor: setup.Policy.CheckTimeout, Now: clock,
	})
	if err != nil {
		return nil, err
	}
	s.mode, err = captchamode.NewMode(setup.Mode, clock, func(w captchamode.Switch) { s.switches = append(s.switches, w) })
	if err != nil {
		return nil, err
	}
	cookies, err := trusted.NewCookies(secret)
	if err != nil {
		return nil, err
	}
	desk, err := challenge.New(challenge.Config{
		Secret: secret, Spent: challenge.NewMemorySpent(0, clock), BuiltIn: picture{}, Now: clock,
	})
	if err != nil {
		return nil, err
	}
	store := guard.NewLocal(s.counters, newPlaces(setup.Policy.KnownClients, knownAccounts))
	store.Sprays = failures.NewSprays(func(failures.Spray) {})
	s.guard, err = guard.New(guard.Config{
		Policy: setup.Policy, Secret: secret, Store: store, Cookies: cookies, Mode: s.mode, Challenges: desk,
		Lists: setup.Lists, Codes: codes{}, Now: clock,
	})
	return s, err
}

// Advance lets time pass: minutes are learned from, cool-downs run out. Where nothing is
// going on, it looks three times a minute, and beyond a week less often.
func (s *Site) Advance(to time.Time) {
	const settles = 2 * time.Minute
	asked := s.now
	step := to.Sub(asked) / (7 * 24 * 3600)
	for next := asked.Truncate(time.Second); ; {
		calm := !s.mode.On() && !s.mode.Slowing() && next.Sub(asked) > settles
		if next = next.Add(max(step, time.Second)); calm {
			next = next.Add(19 * time.Second)
		}
		if next.After(to) {
			break
		}
		s.now = next
		s.mode.Tick()
	}
	s.now = to
	if to.Sub(s.swept) >= time.Hour {
		s.swept = to
		s.counters.Sweep()
	}
}

// ModeOn reports whether CAPTCHA mode is on.
func (s *Site) ModeOn() bool { return s.mode.On() }

// Pressure is how near the pressure is to CAPTCHA mode's threshold.
func (s *Site) Pressure() report.Nearest {
	state := s.mode.State()
	return report.Nearest{Pressure: state.Pressure.Total(), Threshold: state.Threshold}
}

// Fingerprint recognises a password that is offered again.
func (s *Site) Fingerprint(password string) uint64 { return s.guard.Fingerprint(password) }

// An Ask is somebody who offers a password.
type Ask struct {
	Account string
	Address netip.Addr
	// Keeps: it is a browser that keeps cookies. Device is the one that it has.
	Keeps  bool
	Device string
	// Client is what the client looks like; empty: unknown.
	Client string
	// Password recognises a password that is offered again; 0: unknown.
	Password uint64
	Right    bool // it is the right one
	Solves   bool // whoever asks solves the challenge
	Passes   bool // whoever asks shows a good one-time code
}

// An Answer is what became of it.
type Answer struct {
	// Decision is the last one that was made.
	guard.Decision
	// Challenged: a challenge came first, and was solved if the decision is another one.
	Challenged bool
	// Checked: the password was looked at.
	Checked bool
	// In: let in.
	In bool
	// Device is the cookie for who was let in and keeps it.
	Device string
}

// Try takes an attempt from beginning to end, now.
func (s *Site) Try(a Ask) (answer Answer, err error) {
	ctx := context.Background()
	attempt := guard.Attempt{Account: a.Account, Address: a.Address, PasswordTag: a.Password,
		Fingerprint: s.guard.Identity(a.Client), Integration: "trial", SendsCode: true}
	if a.Passes {
		attempt.VerificationCode = good
	}
	if a.Device != "" {
		attempt.Devices = []string{a.Device}
	}
	if answer.Decision, err = s.guard.Begin(ctx, attempt); err != nil {
		return answer, err
	}
	if answer.Action == guard.Challenge {
		answer.Challenged = true
		if a.Solves {
			if err = s.solve(ctx, &attempt, &answer); err != nil {
				return answer, err
			}
		}
	}
	if !answer.Checks() {
		return answer, nil
	}
	answer.Checked = answer.Action == guard.Proceed
	answer.In = a.Right && answer.Checked
	err = s.guard.Settle(ctx, answer.Ticket, guard.OutcomeOf(answer.In))
	if errors.Is(err, guard.ErrInsufficient) {
		answer.In, err = false, nil
	}
	if answer.In && a.Keeps {
		answer.Device, _, _ = s.guard.Device(answer.Ticket)
	}
	return answer, err
}

// solve answers the challenge, and asks once more.
func (s *Site) solve(ctx context.Context, a *guard.Attempt, answer *Answer) error {
	c, err := s.guard.Issue(ctx, *a, answer.Decision)
	if err != nil {
		return fmt.Errorf("trial: issuing a challenge: %w", err)
	}
	a.Solution = challenge.Solve{ID: c.ID, Answer: solved}
	answer.Decision, err = s.guard.Begin(ctx, *a)
	return err
}

// A picture is a challenge that whoever solves any solves.
type picture struct{}

const solved = "solved"

func (picture) Kind() string { return challenge.KindImage }

func (picture) Issue(context.Context, challenge.Task) (challenge.Puzzle, error) {
	return challenge.Puzzle{}, nil
}

func (picture) Check(_ context.Context, _ challenge.Task, answer string) (bool, error) {
	return answer == solved, nil
}

func (picture) Render(io.Writer, challenge.Seed, string) error {
	return errors.New("trial: not checked")
}

// codes are one-time codes: whoever shows one has had it from the owner's mailbox.
type codes struct{}

const good = "good"

func (codes) Show(_ context.Context, p guard.Pass) (bool, error)      { return p.Code == good, nil }
func (codes) Settle(context.Context, guard.Pass, guard.Outcome) error { return nil }
