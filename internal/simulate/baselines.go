package simulate

import (
	"errors"
	"net/netip"
	"time"

	"authguard/internal/replay"
)

// defenses are what other sites do, as far as it is documented.
var defenses = []struct {
	name, about string
	start       func() replay.Defense
}{
	{"none", "checks every password", func() replay.Defense { return &none{} }},
	{"windows", "five failures in ten minutes ban an IP address for ten minutes, as in fail2ban",
		func() replay.Defense {
			return &windows{banned: map[netip.Addr]time.Time{}, failed: counts[netip.Addr]{}}
		}},
	{"lockout", "five failures in 15 minutes lock an account for 15 minutes",
		func() replay.Defense { return &lockout{failed: counts[string]{}} }},
	{"cookies", "OWASP's device cookies: ten failures an hour for a known browser, ten for all others together",
		func() replay.Defense { return &deviceCookies{known: map[machine]bool{}, failed: counts[machine]{}} }},
	{"captchamode", "a CAPTCHA for all clients while more than 500 logins a minute fail, and ten minutes longer",
		func() replay.Defense { return &captcha{failed: counts[string]{}} }},
	{"pgrp", "Password Guessing Resistant Protocol: a challenge after 30 failures a day of a known client, 3 of all others",
		func() replay.Defense {
			return &pgrp{known: map[machine]time.Time{}, at: counts[machine]{}, others: counts[string]{}}
		}},
}

// Defenses lists the defenses that can be simulated besides authguard.
func Defenses() (names []string) {
	for _, d := range defenses {
		names = append(names, d.name)
	}
	return names
}

func newDefense(name string) (replay.Defense, error) {
	for _, d := range defenses {
		if d.name == name {
			return d.start(), nil
		}
	}
	return nil, errors.New("simulate: no such defense")
}

// clock is what all of them have: the time, and no CAPTCHA mode.
type clock struct{ now time.Time }

func (c *clock) Advance(to time.Time)         { c.now = to }
func (c *clock) Mode() (bool, replay.Nearest) { return false, replay.Nearest{} }

// checked is the answer after a password check.
func checked(a replay.Ask) replay.Answer { return replay.Answer{Checked: true, In: a.Right} }

// machine is an IP address, or a browser with a cookie, that has logged in to an account.
type machine struct {
	account string
	address netip.Addr
	device  string
}

// machines returns the IP address's and, if it keeps cookies, the browser's.
func machines(a replay.Ask) []machine {
	all := []machine{{account: a.Account, address: a.Address}}
	if a.Device != "" {
		all = append(all, machine{account: a.Account, device: a.Device})
	}
	return all
}

// none checks every password.
type none struct{ clock }

func (none) Try(a replay.Ask) (replay.Answer, error) { return checked(a), nil }

// counts are failures in fixed windows, as in most limiters: a window begins with its first failure.
type counts[K comparable] map[K]window

type window struct {
	began time.Time
	count int
}

// add counts one more in a window of this length, and returns the count.
func (c counts[K]) add(key K, now time.Time, length time.Duration) int {
	w := c[key]
	if now.Sub(w.began) >= length {
		w = window{began: now}
	}
	w.count++
	c[key] = w
	return w.count
}

func (c counts[K]) has(key K, now time.Time, length time.Duration) int {
	if w := c[key]; now.Sub(w.began) < length {
		return w.count
	}
	return 0
}

// windows bans an IP address for ten minutes after five failures within ten minutes: fail2ban's defaults.
type windows struct {
	clock
	failed counts[netip.Addr]
	banned map[netip.Addr]time.Time
}

func (d *windows) Try(a replay.Ask) (v replay.Answer, err error) {
	const most, within = 5, 10 * time.Minute
	if d.now.Before(d.banned[a.Address]) {
		return v, nil
	}
	v = checked(a)
	if !v.In && d.failed.add(a.Address, d.now, within) >= most {
		d.banned[a.Address] = d.now.Add(within)
		delete(d.failed, a.Address)
	}
	return v, nil
}

// lockout locks an account for fifteen minutes after five failures within fifteen minutes without a success, as most
// directories and frameworks do.
type lockout struct {
	clock
	failed counts[string]
}

func (d *lockout) Try(a replay.Ask) (v replay.Answer, err error) {
	const most, within = 5, 15 * time.Minute
	if d.failed.has(a.Account, d.now, within) >= most {
		return v, nil
	}
	v = checked(a)
	if v.In {
		delete(d.failed, a.Account)
	} else if d.failed.add(a.Account, d.now, within) >= most {
		d.failed[a.Account] = window{d.now, most} // the lock starts now
	}
	return v, nil
}

// deviceCookies is OWASP's protocol ("Slow Down Online Guessing Attacks with Device Cookies"). Browsers that have
// logged in have their own limit, all others share one limit of the account. A client that exceeds it is locked out.
// OWASP leaves N and T open; here N is 10 and T an hour.
type deviceCookies struct {
	clock
	known  map[machine]bool
	failed counts[machine]
}

func (d *deviceCookies) Try(a replay.Ask) (v replay.Answer, err error) {
	const most, within = 10, time.Hour
	browser := machine{account: a.Account, device: a.Device}
	who := browser
	if !d.known[browser] {
		who.device = "" // all others
	}
	if d.failed.has(who, d.now, within) >= most {
		return v, nil
	}
	v = checked(a)
	switch {
	case v.In && a.Device != "":
		d.known[browser] = true
		delete(d.failed, browser)
	case !v.In && d.failed.add(who, d.now, within) >= most:
		d.failed[who] = window{d.now, most}
	}
	return v, nil
}

// captcha is the site-wide switch as first proposed: a CAPTCHA for all clients while more than a fixed number of logins
// a minute fail, and ten minutes longer.
type captcha struct {
	clock
	failed counts[string] // of the whole site
	until  time.Time
}

func (d *captcha) Mode() (bool, replay.Nearest) { return d.now.Before(d.until), replay.Nearest{} }

func (d *captcha) Try(a replay.Ask) (v replay.Answer, err error) {
	const most, cool = 500, 10 * time.Minute
	if v.Challenged, _ = d.Mode(); v.Challenged && !a.Solves {
		d.fail(most, cool)
		return v, nil
	}
	if v.Checked, v.In = true, a.Right; !v.In {
		d.fail(most, cool)
	}
	return v, nil
}

func (d *captcha) fail(most int, cool time.Duration) {
	if d.failed.add("", d.now, time.Minute) > most {
		d.until = d.now.Add(cool)
	}
}

// pgrp is the Password Guessing Resistant Protocol (Alsaleh, Mannan and van Oorschot, 2012). Known machines have 30
// failures a day, all others together three per account and day; then a challenge is required. A machine is known for
// 30 days.
type pgrp struct {
	clock
	known  map[machine]time.Time
	at     counts[machine] // failures of known machines
	others counts[string]  // failures of unknown machines, by account
}

func (d *pgrp) Try(a replay.Ask) (v replay.Answer, err error) {
	const k1, k2, t1, day = 30, 3, 30 * 24 * time.Hour, 24 * time.Hour
	all := machines(a)
	me, isKnown := all[0], false
	for _, m := range all { // the browser before the IP address
		if last, ok := d.known[m]; ok && d.now.Sub(last) < t1 {
			me, isKnown = m, true
		}
	}
	isKnown = isKnown && d.at.has(me, d.now, day) < k1
	if !isKnown && d.others.has(a.Account, d.now, day) >= k2 {
		if v.Challenged = true; !a.Solves {
			return v, nil
		}
	}
	v.Checked, v.In = true, a.Right
	switch {
	case v.In:
		for _, m := range all {
			d.known[m] = d.now
		}
		delete(d.at, me)
	case isKnown:
		d.at.add(me, d.now, day)
	case !v.Challenged:
		d.others.add(a.Account, d.now, day)
	}
	return v, nil
}
