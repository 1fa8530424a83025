// Package simulate lets people and attackers log in to a site that is made up, for days
// in seconds, and counts what became of them under authguard's policy and under what
// other sites do. The same scenario and seed give the same figures.
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

// A Scenario is a site, its people and who attacks it. It is written in YAML; the ones
// that come along are examples.
type Scenario struct {
	Name  string `yaml:"name"`
	About string `yaml:"about"` // a sentence
	Seed  uint64 `yaml:"seed"`
	Days  int    `yaml:"days"`

	People    People   `yaml:"people"`
	Attackers []Attack `yaml:"attackers"`
}

// People are who the site is for. A part is between 0 and 1.
type People struct {
	Accounts int `yaml:"accounts"`
	// Logins are those of a person in a day, on average; by night it is Night times as
	// busy as by day, and on Saturdays and Sundays Weekend times.
	Logins  float64 `yaml:"logins"`
	Night   float64 `yaml:"night"`
	Weekend float64 `yaml:"weekend"`
	// Typos is the part of all logins that begin with a wrong password, and Forgotten of
	// those with three to six, and then a new one.
	Typos     float64 `yaml:"typos"`
	Forgotten float64 `yaml:"forgotten"`
	// Home is the part of logins from where a person always is; the others are from
	// elsewhere. Cookies is the part of people whose browser keeps cookies.
	Home    float64 `yaml:"home"`
	Cookies float64 `yaml:"cookies"`
	// Shared is the part of people who are at home where others are, Sharers at one
	// address. Pool is the part of logins from elsewhere that come out of a carrier's
	// pool of as many addresses as Carrier.
	Shared  float64 `yaml:"shared"`
	Sharers int     `yaml:"sharers"`
	Pool    float64 `yaml:"pool"`
	Carrier int     `yaml:"carrier"`
	// Browsers is how many clients there are that can be told apart: the second is half as
	// common as the first, the third a third, and so on.
	Browsers int `yaml:"browsers"`
	// Common is the part of people with one of the hundred passwords that everybody
	// guesses.
	Common float64 `yaml:"common"`
	// Stale programs go on trying an old password, Every so long, at home.
	Stale int           `yaml:"stale"`
	Every time.Duration `yaml:"every"`
	// Rush lets everybody log in within this long from one address, on the first day at
	// nine: the first day of term. None of them has been there before.
	Rush time.Duration `yaml:"rush"`
}

// An Attack goes on evenly from From for For.
type Attack struct {
	Kind      Kind          `yaml:"kind"`
	From      time.Duration `yaml:"from"`
	For       time.Duration `yaml:"for"`
	Attempts  int           `yaml:"attempts"`
	Addresses int           `yaml:"addresses"`
	// Accounts is how many are tried; none: all.
	Accounts int `yaml:"accounts"`
	// Passwords is how many of the common ones are tried; none: a hundred.
	Passwords int `yaml:"passwords"`
	// Right is, of stuffing, the part of the pairs that is right.
	Right float64 `yaml:"right"`
	// Solves: challenges are solved, by a farm of people.
	Solves bool `yaml:"solves"`
	// Browser is which of the people's clients the attacker's looks like, from 1; none: one
	// that nobody has.
	Browser int `yaml:"browser"`
}

// A Kind is what an attacker does.
type Kind string

// The kinds of attacks.
const (
	Hammer    Kind = "hammer"    // one account after the other, each with many passwords
	Walk      Kind = "walk"      // few addresses through all accounts
	Spray     Kind = "spray"     // one password at all accounts, then the next one
	Stuff     Kind = "stuff"     // pairs of names and passwords that leaked elsewhere
	Own       Kind = "own"       // as Walk, and between the guesses a login with an account of the attacker's
	Neighbour Kind = "neighbour" // from the address where people are at home together
	Pool      Kind = "pool"      // out of the carrier's pool that people come from
	Invent    Kind = "invent"    // names that nobody has
)

func kinds() []Kind { return []Kind{Hammer, Walk, Spray, Stuff, Own, Neighbour, Pool, Invent} }

//go:embed scenarios/*.yaml
var files embed.FS

// Scenarios are those that come along, by name.
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

// Source is the text of a scenario that comes along.
func Source(name string) ([]byte, error) {
	text, err := files.ReadFile("scenarios/" + name + ".yaml")
	if err != nil {
		return nil, fmt.Errorf("no scenario %q comes along", name)
	}
	return text, nil
}

// Load is a scenario that comes along, by its name, or of a file.
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

// ordinary are people of whom nothing else was said: after the simulator of StopGuessing
// (Schechter and others, 2019), which has 2 % of typos, cookies kept by 90 % and addresses
// by 85 %, and one address in ten shared.
func ordinary() People {
	return People{
		Accounts: 5000, Logins: 4, Night: 0.1, Weekend: 0.5, Typos: 0.02, Forgotten: 0.002, Home: 0.85, Cookies: 0.9,
		Shared: 0.1, Sharers: 100, Pool: 0.3, Carrier: 500, Browsers: 200, Common: 0.05, Every: time.Minute,
	}
}

// Parse reads a scenario.
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
	check(p.Accounts >= 1 && p.Accounts <= 1_000_000, "people.accounts: from 1 to 1000000")
	check(p.Logins >= 0 && p.Logins <= 1000, "people.logins: from 0 to 1000")
	for name, part := range map[string]float64{
		"night": p.Night, "weekend": p.Weekend, "typos": p.Typos, "forgotten": p.Forgotten, "home": p.Home,
		"cookies": p.Cookies,
		"shared":  p.Shared, "pool": p.Pool, "common": p.Common,
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
		check(a.Accounts >= 0 && a.Accounts <= p.Accounts, "%s.accounts: at most people.accounts", at)
		check(a.Passwords >= 0 && a.Passwords <= common, "%s.passwords: at most %d", at, common)
		check(a.Browser >= 0 && a.Browser <= p.Browsers, "%s.browser: at most people.browsers", at)
		check(a.Right >= 0 && a.Right <= 1, "%s.right: from 0 to 1", at)
		check(a.Kind != Neighbour || p.Shared > 0, "%s: a neighbour needs people.shared", at)
		check(a.Kind != Pool || p.Pool > 0, "%s: the pool needs people.pool", at)
	}
	return errors.Join(errs...)
}
