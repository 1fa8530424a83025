// Package replay runs login attempts from logs through policies, each through the real guard with its own clock, in
// memory. It reports the effect on users and attackers before a limit blocks anyone.
//
// [Open] reads the logs, [Run] replays them, and a [Sheet] shows the result as text or as a page.
package replay

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"authguard/captchamode"
	"authguard/captchamode/challenge"
	"authguard/failures"
	"authguard/guard"
	"authguard/trusted"
)

// Setup is what to test.
type Setup struct {
	Name   string
	Policy guard.Policy
	Mode   captchamode.Config
	// Lists are the allowlist, the blocklist and the IP lists; nil: none.
	Lists *guard.Lists
}

// Site is one policy in force, with its own clock, counters and known clients. It is not safe for concurrent use.
type Site struct {
	guard    *guard.Guard
	mode     *captchamode.Mode
	counters *failures.Memory
	devices  *lru.Cache[string, string] // device cookies by Ask.Device
	now      time.Time
	swept    time.Time
	switches []captchamode.Switch // since the last note
}

// counterBytes is the memory of a Site's counters. knownAccounts is the number of accounts whose known clients it
// keeps, knownDevices that of device cookies.
const counterBytes, knownAccounts, knownDevices = 128 << 20, 1 << 20, 1 << 20

// secret keys the digests. It is public, so that the same input gives the same report.
var secret = []byte("every trial counts under the same key")

// NewSite returns an empty site with its clock at start.
func NewSite(setup Setup, start time.Time) (*Site, error) {
	s := &Site{now: start, swept: start}
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
	clients, err := trusted.NewMemory(trusted.MemoryConfig{Limits: setup.Policy.KnownClients, Accounts: knownAccounts})
	if err != nil {
		return nil, err
	}
	if s.devices, err = lru.New[string, string](knownDevices); err != nil {
		return nil, err
	}
	store := guard.NewLocal(s.counters, clients)
	store.Sprays = failures.NewSprays(func(failures.Spray) {})
	s.guard, err = guard.New(guard.Config{
		Policy: setup.Policy, Secret: secret, Store: store, KnownClientConfig: guard.KnownClientConfig{Cookies: cookies},
		Mode: s.mode, Challenges: desk,
		Lists: setup.Lists, Codes: codes{}, Now: clock,
	})
	return s, err
}

// Advance implements Defense: CAPTCHA mode learns from minutes, and cool-downs end. In calm periods it ticks three
// times a minute, and less often over spans of more than a week.
func (s *Site) Advance(to time.Time) {
	const settles = 2 * time.Minute
	asked := s.now
	step := to.Sub(asked) / (7 * 24 * 3600)
	for next := asked.Truncate(time.Second); ; {
		calm := !s.mode.On() && !s.mode.Throttling() && next.Sub(asked) > settles
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

// Mode implements Defense.
func (s *Site) Mode() (on bool, now Nearest) {
	state := s.mode.State()
	return s.mode.On(), Nearest{Pressure: state.FailureRate.Total(), Threshold: state.Threshold}
}

// Try implements Defense.
func (s *Site) Try(a Ask) (answer Answer, err error) {
	ctx := context.Background()
	attempt := guard.Attempt{Account: a.Account, Address: a.Address, Fingerprint: s.guard.Identity(a.Client),
		Integration: "replay", SendsCode: !a.WithoutEmail, PasswordLeaked: a.Leaked}
	if a.Password != "" {
		attempt.PasswordTag = s.guard.Fingerprint(a.Password)
	}
	if a.Code {
		attempt.VerificationCode = good
	}
	if cookie, ok := s.devices.Get(a.Device); ok {
		attempt.Devices = []string{cookie}
	}
	if answer.Decision, err = s.guard.Begin(ctx, attempt); err != nil {
		return answer, err
	}
	if answer.Challenged = answer.Action == guard.Challenge; answer.Challenged && a.Solves {
		if err = s.solve(ctx, &attempt, &answer); err != nil {
			return answer, err
		}
	}
	if answer.Checks() {
		answer.Checked = answer.Action == guard.Proceed
		answer.In = a.Right && answer.Checked
		err = s.guard.Settle(ctx, answer.Ticket, guard.OutcomeOf(answer.In))
		if errors.Is(err, guard.ErrInsufficient) {
			answer.In, err = false, nil
		}
	}
	if answer.In && a.Device != "" {
		if cookie, _, _ := s.guard.Device(answer.Ticket); cookie != "" {
			s.devices.Add(strings.Clone(a.Device), cookie)
		}
	}
	answer.Code = !answer.In && answer.Action != guard.Delay && !a.WithoutEmail
	return answer, err
}

// solve solves the challenge and repeats the attempt.
func (s *Site) solve(ctx context.Context, a *guard.Attempt, answer *Answer) error {
	c, err := s.guard.Issue(ctx, *a, answer.Decision)
	if err != nil {
		return fmt.Errorf("replay: issuing a challenge: %w", err)
	}
	a.Solution = challenge.Solution{ID: c.ID, Answer: solved}
	answer.Decision, err = s.guard.Begin(ctx, *a)
	return err
}

// picture is a challenge with a constant solution.
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
	return errors.New("replay: not checked")
}

// codes accepts the constant verification code: a client with it has received it from the owner's mailbox.
type codes struct{}

const good = "good"

func (codes) Show(_ context.Context, p guard.Code) (bool, error)      { return p.Text == good, nil }
func (codes) Settle(context.Context, guard.Code, guard.Outcome) error { return nil }
