// Package simulate simulates days of logins of users and attackers in seconds. It counts the effects of authguard's
// policy and of other sites' defenses. The same scenario and seed give the same figures.
package simulate

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/goccy/go-yaml"
)

// Scenario is a site with its users and attackers, in YAML. The built-in scenarios are examples.
type Scenario struct {
	Name  string `yaml:"name"`
	About string `yaml:"about"` // one sentence
	Seed  uint64 `yaml:"seed"`
	Days  int    `yaml:"days"`

	// Leaked is the share of the passwords that attackers try on the site's list of leaked passwords, which also has the
	// common passwords. 0: no list.
	Leaked float64 `yaml:"leaked"`

	People    People   `yaml:"people"`
	Attackers []Attack `yaml:"attackers"`
}

// People are the site's users. Shares are between 0 and 1.
type People struct {
	Accounts int `yaml:"accounts"`
	// Logins is the average per user and day. Night and Weekend are the activity at night and on Saturdays and Sundays,
	// relative to the day's.
	Logins  float64 `yaml:"logins"`
	Night   float64 `yaml:"night"`
	Weekend float64 `yaml:"weekend"`
	// Typos is the share of logins that start with a wrong password. Forgotten is the share with three to six, followed by
	// a password reset.
	Typos     float64 `yaml:"typos"`
	Forgotten float64 `yaml:"forgotten"`
	// Home is the share of logins from the user's own IP address; half of the others use a second device. Cookies is the
	// share of users whose devices keep cookies. Fresh is the share of logins with a device that has not been used before.
	Home    float64 `yaml:"home"`
	Cookies float64 `yaml:"cookies"`
	Fresh   float64 `yaml:"fresh"`
	// Shared is the share of users behind a shared address of up to Sharers users. Pool is the share of the other logins
	// that come from a carrier's pool of Carrier IP addresses.
	Sharing `yaml:",inline"`
	// Browsers is the number of distinct client fingerprints: the second is half as common as the first, the third a
	// third, and so on.
	Browsers int `yaml:"browsers"`
	// Common is the share of users with one of the hundred most common passwords.
	Common float64 `yaml:"common"`
	// Stale programs keep trying an old password at home, at this interval.
	Stale int           `yaml:"stale"`
	Every time.Duration `yaml:"every"`
	// Rush lets all users log in within this time from one IP address, on the first day at nine, like a first day of term.
	// All are unknown clients.
	Rush time.Duration `yaml:"rush"`
	// WithoutEmail: the site cannot email verification codes.
	WithoutEmail bool `yaml:"without_email"`
}

// Sharing is how users share IP addresses.
type Sharing struct {
	Shared  float64 `yaml:"shared"`
	Sharers int     `yaml:"sharers"`
	Pool    float64 `yaml:"pool"`
	Carrier int     `yaml:"carrier"`
}

// Attack runs at a constant rate from From for For.
type Attack struct {
	Kind      Kind          `yaml:"kind"`
	From      time.Duration `yaml:"from"`
	For       time.Duration `yaml:"for"`
	Attempts  int           `yaml:"attempts"`
	Addresses int           `yaml:"addresses"`
	// Accounts is the number of targets; 0: all.
	Accounts int `yaml:"accounts"`
	// Passwords is the number of common passwords; 0: a hundred.
	Passwords int `yaml:"passwords"`
	// Right is the share of right pairs in credential stuffing.
	Right float64 `yaml:"right"`
	// Networks: each pair comes from another IP address in its victim's own network.
	Networks bool `yaml:"networks"`
	// Solves: a CAPTCHA farm solves the challenges.
	Solves bool `yaml:"solves"`
	// Browser is which users' fingerprint the attacker copies, from 1; 0: a fingerprint that no user has.
	Browser int `yaml:"browser"`
}

// Kind is a type of attack.
type Kind string

// The types of attacks.
const (
	Hammer    Kind = "hammer"    // brute force: many passwords on one account after the other
	Walk      Kind = "walk"      // few IP addresses, all accounts
	Spray     Kind = "spray"     // password spraying
	Stuff     Kind = "stuff"     // credential stuffing, many pairs for each account
	Pairs     Kind = "pairs"     // credential stuffing, each pair once: the leak has at most one for an account
	Own       Kind = "own"       // like Walk, with logins to the attacker's own account in between
	Neighbour Kind = "neighbour" // from a shared address of users
	Pool      Kind = "pool"      // from the carrier's pool that users share
	Invent    Kind = "invent"    // accounts that do not exist
)

func kinds() []Kind { return []Kind{Hammer, Walk, Spray, Stuff, Pairs, Own, Neighbour, Pool, Invent} }

//go:embed scenarios/*.yaml
var files embed.FS

// Scenarios returns the built-in scenarios, by name.
func Scenarios() (all []Scenario, err error) {
	paths, err := fs.Glob(files, "scenarios/*.yaml")
	if err != nil {
		return nil, err
	}
	for _, path := range paths {
		text, err := files.ReadFile(path)
		if err != nil {
			return nil, err
		}
		s, err := Parse(text)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		all = append(all, s)
	}
	return all, nil
}

// Source returns the text of a built-in scenario.
func Source(name string) ([]byte, error) {
	text, err := files.ReadFile("scenarios/" + name + ".yaml")
	if err != nil {
		return nil, fmt.Errorf("no scenario %q comes along", name)
	}
	return text, nil
}

// Load returns a built-in scenario by name, or reads a file.
func Load(name string) (Scenario, error) {
	all, err := Scenarios()
	if err != nil {
		return Scenario{}, err
	}
	var names []string
	for _, s := range all {
		if names = append(names, s.Name); s.Name == name {
			return s, nil
		}
	}
	text, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return Scenario{}, fmt.Errorf("%q is neither a scenario that comes along (%s) nor a file", name,
			strings.Join(names, ", "))
	}
	if err != nil {
		return Scenario{}, err
	}
	s, err := Parse(text)
	if err != nil {
		return Scenario{}, fmt.Errorf("%s: %w", name, err)
	}
	return s, nil
}

// ordinary are the defaults, after the simulator of StopGuessing (Schechter and others, 2019): 2 % typos, cookies kept
// by 90 %, and 85 % of logins from the usual IP address. One in ten users is behind a shared address, and one login in
// 500 is with a new device.
func ordinary() People {
	return People{
		Accounts: 5000, Logins: 4, Night: 0.1, Weekend: 0.5, Typos: 0.02, Forgotten: 0.002, Home: 0.85, Cookies: 0.9,
		Fresh:   0.002,
		Sharing: Sharing{Shared: 0.1, Sharers: 100, Pool: 0.3, Carrier: 500}, Browsers: 200, Common: 0.05, Every: time.Minute,
	}
}

// Parse parses and validates a scenario.
func Parse(text []byte) (Scenario, error) {
	s := Scenario{Seed: 1, Days: 7, People: ordinary()}
	if err := yaml.UnmarshalWithOptions(text, &s, yaml.Strict()); err != nil {
		return s, errors.New(yaml.FormatError(err, false, true))
	}
	return s, s.validate()
}

func (s *Scenario) validate() error {
	var errs []error
	check := func(ok bool, what string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(what, args...))
		}
	}
	p := s.People
	check(s.Name != "", "name: must be set")
	check(s.Days >= 1 && s.Days <= 366, "days: from 1 to 366")
	check(s.Leaked >= 0 && s.Leaked <= 1, "leaked: from 0 to 1")
	check(p.Accounts >= 1 && p.Accounts <= 1_000_000, "people.accounts: from 1 to 1000000")
	check(p.Logins >= 0 && p.Logins <= 1000, "people.logins: from 0 to 1000")
	for name, part := range map[string]float64{
		"night": p.Night, "weekend": p.Weekend, "typos": p.Typos, "forgotten": p.Forgotten, "home": p.Home,
		"cookies": p.Cookies, "fresh": p.Fresh,
		"shared": p.Shared, "pool": p.Pool, "common": p.Common,
	} {
		check(part >= 0 && part <= 1, "people.%s: from 0 to 1", name)
	}
	check(p.Shared == 0 || p.Sharers >= 2, "people.sharers: at least 2")
	check(p.Pool == 0 || p.Carrier >= 1, "people.carrier: at least 1")
	check(p.Browsers >= 1 && p.Browsers <= 10_000, "people.browsers: from 1 to 10000")
	check(p.Stale >= 0 && p.Stale <= p.Accounts, "people.stale: from 0 to people.accounts")
	check(p.Stale == 0 || p.Every >= time.Second, "people.every: at least 1s")
	check(p.Rush >= 0 && p.Rush <= 12*time.Hour, "people.rush: from 0 to 12h")
	for i, a := range s.Attackers {
		at := fmt.Sprintf("attackers[%d]", i)
		check(slices.Contains(kinds(), a.Kind), "%s.kind: one of %v, not %q", at, kinds(), a.Kind)
		check(a.From >= 0 && a.For > 0 && a.From+a.For <= time.Duration(s.Days)*24*time.Hour,
			"%s: from and for: within the %d days", at, s.Days)
		check(a.Attempts >= 1 && a.Attempts <= 100_000_000, "%s.attempts: from 1 to 100000000", at)
		check(a.Addresses >= 1 && a.Addresses <= 1<<24 || a.Kind == Neighbour || a.Kind == Pool, "%s.addresses: from 1 to %d",
			at, 1<<24)
		check(a.Kind != Pairs || a.Right*float64(a.Attempts) <= float64(min(p.Accounts, a.Attempts)),
			"%s.right: more right pairs than accounts", at)
		check(a.Accounts >= 0 && a.Accounts <= p.Accounts, "%s.accounts: at most people.accounts", at)
		check(a.Passwords >= 0 && a.Passwords <= common, "%s.passwords: at most %d", at, common)
		check(a.Browser >= 0 && a.Browser <= p.Browsers, "%s.browser: at most people.browsers", at)
		check(a.Right >= 0 && a.Right <= 1, "%s.right: from 0 to 1", at)
		check(a.Kind != Neighbour || p.Shared > 0, "%s: a neighbour needs people.shared", at)
		check(a.Kind != Pool || p.Pool > 0, "%s: the pool needs people.pool", at)
	}
	return errors.Join(errs...)
}
