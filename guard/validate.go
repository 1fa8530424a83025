package guard

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"authguard/failures"
	"authguard/internal/times"
)

// A Problem is one error in a policy, with the path of the setting, such as "limits.account[1].failures".
type Problem struct {
	Path string
	Text string
}

// Error returns the problem on one line.
func (p Problem) Error() string { return p.Path + ": " + p.Text }

// Validate returns all Problems as one error, or nil.
func (p Policy) Validate() error {
	var errs []error
	for _, problem := range p.Problems() {
		errs = append(errs, problem)
	}
	return errors.Join(errs...)
}

// Problems returns everything that is wrong with the policy.
func (p Policy) Problems() []Problem {
	var c checker
	c.limits("limits.address", p.Address, failures.Backoff{}, Challenge, Block, FakeFailure)
	c.limits("limits.network", p.Network, failures.Backoff{}, Challenge, Block, FakeFailure)
	c.limits("limits.account", p.Account, failures.Backoff{}, Challenge, Block, FakeFailure)
	c.limits("limits.pair", p.Pair, p.PairDelay.backoff(), Challenge, Block, FakeFailure)
	c.check(len(p.Pair) == 0 || len(p.Pair)+len(p.KnownClient) <= failures.MaxLimits, "limits.pair",
		"at most %d limits together with limits.known_client, not %d", failures.MaxLimits, len(p.Pair)+len(p.KnownClient))
	c.limits("limits.site", p.Site, failures.Backoff{}, Block, FakeFailure)
	c.limits("limits.fingerprint", p.Fingerprint, failures.Backoff{}, Challenge, Alert)
	c.limits("limits.known_client", p.KnownClient, p.PairDelay.backoff(), Challenge, Forget)
	c.delay("limits.pair_delay", p.PairDelay)
	c.check(p.Spray.Accounts == 0 || p.Spray.Accounts >= 3 && p.Spray.Accounts <= failures.MaxSprayAccounts,
		"limits.spray",
		"must be off, or from 3 to %d accounts, not %d", failures.MaxSprayAccounts, p.Spray.Accounts)
	c.check(p.ThrottleDelay >= 0 && p.ThrottleDelay <= time.Minute && whole(p.ThrottleDelay),
		"captcha_mode.throttle_delay", "must be from 0 to 1m in whole milliseconds, not %s", times.FormatDuration(p.ThrottleDelay))
	c.check(p.CheckTimeout >= 100*time.Millisecond && p.CheckTimeout <= time.Minute && whole(p.CheckTimeout),
		"limits.check_timeout", "must be from 100ms to 1m in whole milliseconds, not %s", times.FormatDuration(p.CheckTimeout))
	c.check(p.KnownClients.MaxClients >= 1 && p.KnownClients.MaxClients <= 100, "known_clients.max_per_account",
		"must be from 1 to 100, not %d", p.KnownClients.MaxClients)
	c.check(p.KnownClients.TTL >= time.Minute, "known_clients.ttl", "must be at least 1m, not %s",
		times.FormatDuration(p.KnownClients.TTL))
	c.events(p.Events)
	c.lists(p.Lists, p.Address)
	return c.problems
}

type checker struct{ problems []Problem }

func (c *checker) check(ok bool, path, text string, args ...any) bool {
	if !ok {
		c.problems = append(c.problems, Problem{Path: path, Text: fmt.Sprintf(text, args...)})
	}
	return ok
}

// whyNot explains why a limit does not allow an action that an administrator may want.
var whyNot = map[string]string{
	"limits.fingerprint": ": thousands of users may share one fingerprint, and an attacker could block them all",
}

func (c *checker) limits(path string, limits []Limit, backoff failures.Backoff, allowed ...Action) {
	c.check(len(limits) <= failures.MaxLimits, path, "at most %d limits, not %d", failures.MaxLimits, len(limits))
	for i, l := range limits {
		at := fmt.Sprintf("%s[%d]", path, i)
		ok := c.check(l.Failures >= 1 && l.Failures <= failures.MaxFailures, at+".failures",
			"must be from 1 to %d, not %d", failures.MaxFailures, l.Failures)
		ok = c.check(l.Window >= time.Millisecond && l.Window <= failures.MaxWindow && whole(l.Window), at+".window",
			"must be from 1ms to %s in whole milliseconds, not %s", times.FormatDuration(failures.MaxWindow),
			times.FormatDuration(l.Window)) && ok
		ok = c.check(slices.Contains(allowed, l.Action), at+".action", "must be %s, not %s%s", oneOf(allowed), l.Action,
			whyNot[path]) && ok
		if ok {
			c.reachable(at, "failures", limits, i)
			c.reachableAtPace(at, backoff, l)
		}
	}
}

// Notes returns warnings about a valid policy: limits that only solved challenges reach, because another asks for them.
func (p Policy) Notes() []Problem {
	var c checker
	for _, one := range []struct {
		path   string
		limits []Limit
	}{{"limits.address", p.Address}, {"limits.network", p.Network}, {"limits.account", p.Account}} {
		for i, l := range one.limits {
			if (l.Action == Block || l.Action == FakeFailure) && l.Window > 0 {
				c.solved(fmt.Sprintf("%s[%d]", one.path, i), one.limits, l)
			}
		}
	}
	return c.problems
}

// solved notes the challenge limit that lets the fewest attempts without a solution reach this limit.
func (c *checker) solved(at string, limits []Limit, l Limit) {
	fewest, text := int64(l.Failures), ""
	for i, e := range limits {
		if e.Monitor || e.Action != Challenge || e.Window <= 0 {
			continue
		}
		windows := int64((l.Window + e.Window - 1) / e.Window)
		if most := int64(e.Failures) * windows; most < fewest {
			fewest = most
			text = fmt.Sprintf("only solved challenges reach it: %s challenges beyond %d per %s, so at most %d × %d = %d in "+
				"%s come without one",
				beside(at, i), e.Failures, Spell(e.Window), e.Failures, windows, most, Spell(l.Window))
		}
	}
	c.check(text == "", at, "%s", text)
}

// reachable adds a problem if another limit that stops at least as much lets too few through to fill this one (R8).
func (c *checker) reachable(at, what string, limits []Limit, this int) {
	for i, e := range limits {
		if i != this {
			c.reachableBeside(at+"."+what, limits[this], beside(at, i), e)
		}
	}
}

// beside returns the path of limit i in the same list.
func beside(at string, i int) string {
	return fmt.Sprintf("%s[%d]", at[:strings.LastIndexByte(at, '[')], i)
}

// reachableBeside is reachable for one other limit, by its name.
func (c *checker) reachableBeside(at string, l Limit, name string, e Limit) {
	if e.Monitor || e.Failures < 1 || e.Window < time.Millisecond || !e.Action.bars(l.Action) {
		return
	}
	windows := int64((l.Window + e.Window - 1) / e.Window)
	most := int64(e.Failures) * windows
	c.check(most >= int64(l.Failures), at,
		"can never be reached: %s allows %d per %s, which is at most %d × %d = %d in %s, fewer than %d",
		name, e.Failures, Spell(e.Window), e.Failures, windows, most, Spell(l.Window), l.Failures)
}

// bars reports whether a full limit of action a stops every attempt that could fill one of the other action. A solution
// passes a Challenge limit and no other. Delay and FakeFailure charge the other limit nothing; Alert never stops.
func (a Action) bars(other Action) bool {
	switch a {
	case Challenge:
		return other == Challenge
	case Delay, FakeFailure:
		return true
	}
	return a <= other && a != Alert
}

// oneOf returns "a, b or c".
func oneOf(all []Action) (text string) {
	for i, a := range all {
		switch {
		case i > 0 && i == len(all)-1:
			text += " or "
		case i > 0:
			text += ", "
		}
		text += a.String()
	}
	return text
}

// reachableAtPace adds a problem if PairDelay is too slow for the limit to ever be full.
func (c *checker) reachableAtPace(at string, p failures.Backoff, l Limit) {
	if p.First <= 0 || p.Max < p.First || l.Window > p.Window {
		return
	}
	most, last := int64(0), time.Duration(0)
	for last <= l.Window && most < int64(l.Failures) {
		most++
		last += max(p.Delay(int(most)), 0)
	}
	c.check(most >= int64(l.Failures), at+".failures",
		"can never be reached: limits.pair_delay allows at most %d attempts in %s, fewer than %d", most, Spell(l.Window),
		l.Failures)
}

func (c *checker) delay(path string, d PairDelay) {
	if d == (PairDelay{}) || d == (PairDelay{Monitor: true}) {
		return
	}
	c.check(d.After >= 1 && d.After <= 1000, path, "must begin after 1 to 1000 failures, not %d", d.After)
	c.check(d.First >= time.Millisecond && whole(d.First), path,
		"must begin with a delay of at least 1ms, in whole milliseconds, not %s", times.FormatDuration(d.First))
	c.check(d.Max >= d.First && whole(d.Max), path,
		"must have a longest delay of at least the first one (%s), in whole milliseconds, not %s",
		times.FormatDuration(d.First), times.FormatDuration(d.Max))
	c.check(d.Window >= d.Max && d.Window <= failures.MaxWindow && whole(d.Window), path,
		"must have a window from the longest delay (%s) to %s, in whole milliseconds, not %s", times.FormatDuration(d.Max),
		times.FormatDuration(failures.MaxWindow), times.FormatDuration(d.Window))
}

var eventName = regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,39}$`)

func (c *checker) events(all map[string][]EventLimit) {
	c.check(len(all) <= MaxEvents, "events", "must be at most %d, not %d", MaxEvents, len(all))
	for _, name := range slices.Sorted(maps.Keys(all)) {
		path := "events." + name
		c.check(eventName.MatchString(name), path,
			"must have a name of 1 to 40 lower-case letters, digits and -, such as password-reset")
		c.check(len(all[name]) > 0, path, "must have a limit such as 5/1h block by account")
		for i, l := range all[name] {
			at := fmt.Sprintf("%s[%d]", path, i)
			c.check(slices.Contains(eventKinds, l.By), at+".by", "must be account, address, network, subject or site")
			c.check(l.Action == Block || l.Action == Challenge || l.Action == Delay || l.Action == Alert, at+".action",
				"must be block, challenge, delay or alert, not %s", l.Action)
		}
		for _, by := range eventKinds {
			c.eventLimits(path, by, all[name])
		}
	}
}

// eventLimits checks an event's limits on one kind of subject.
func (c *checker) eventLimits(path string, by SubjectKind, limits []EventLimit) {
	own, n := make([]Limit, len(limits)), 0
	for i, l := range limits {
		if own[i].Monitor = true; l.By == by { // for the other kinds: a monitored limit stops nothing
			own[i] = l.limit()
			n++
		}
	}
	c.check(n <= failures.MaxLimits, path, "at most %d limits by %s, not %d", failures.MaxLimits, by, n)
	for i, l := range own {
		if limits[i].By != by {
			continue
		}
		at := fmt.Sprintf("%s[%d]", path, i)
		ok := c.check(l.Failures >= 1 && l.Failures <= failures.MaxFailures, at+".count",
			"must be from 1 to %d, not %d", failures.MaxFailures, l.Failures)
		ok = c.check(l.Window >= time.Millisecond && l.Window <= failures.MaxWindow && whole(l.Window), at+".window",
			"must be from 1ms to %s in whole milliseconds, not %s", times.FormatDuration(failures.MaxWindow),
			times.FormatDuration(l.Window)) && ok
		if ok {
			c.reachable(at, "count", own, i)
		}
	}
}

var listName = regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,39}$`)

// lists checks the IP lists: their limits by themselves, and beside those of the address, which must be looser.
func (c *checker) lists(all []NamedList, address []Limit) {
	c.check(len(all) <= MaxNamedLists, "lists", "must be at most %d, not %d", MaxNamedLists, len(all))
	seen := map[string]bool{}
	for i, l := range all {
		path := listPath(i)
		c.check(listName.MatchString(l.Name), path+".name",
			"must be 1 to 40 lower-case letters, digits and -, such as datacenters, not %.60q", l.Name)
		c.check(!seen[l.Name], path+".name", "is the name of another list")
		seen[l.Name] = true
		c.check(l.Verdict != NotListed || len(l.Limits) > 0, path+".limits",
			"must have a limit such as 0 challenge, or the list must allow or block")
		c.check(l.Verdict == NotListed || len(l.Limits) == 0, path+".limits",
			"are not used by a list that allows or blocks: remove the limits or the action")
		counted, always := l.split()
		c.check(len(always) <= 1, path+".limits", "can contain one limit of 0 failures only")
		for _, one := range always {
			c.check(one.Action == Challenge, path+".limits",
				"of 0 failures must be challenge, not %s: unknown clients get a challenge first; to block all of them set "+
					"action: block", one.Action)
		}
		c.check(len(counted)+len(address) <= failures.MaxLimits, path+".limits",
			"at most %d limits together with limits.address, not %d", failures.MaxLimits, len(counted)+len(address))
		asked := len(always) > 0 && !always[0].Monitor
		checked := slices.Clone(l.Limits)
		for j, r := range l.Limits {
			at := fmt.Sprintf("%s.limits[%d]", path, j)
			if r.always() {
				checked[j] = Limit{Failures: 1, Window: time.Millisecond, Action: Challenge, Monitor: true}
				continue
			}
			c.check(!asked || r.Action != Challenge, at,
				"can never be reached: 0 challenge challenges every unknown client before")
			for k, e := range address {
				if r.Window > 0 {
					c.reachableBeside(at+".failures", r, fmt.Sprintf("limits.address[%d]", k), e)
				}
			}
		}
		c.limits(path+".limits", checked, failures.Backoff{}, Challenge, Block, FakeFailure)
	}
}

func listPath(i int) string { return fmt.Sprintf("lists[%d]", i) }
