package simulate

import (
	"net/netip"
	"time"
)

type clock struct{ now time.Time }

func (c *clock) advance(to time.Time) { c.now = to }

// none checks every password.
type none struct{}

func (none) advance(time.Time) {}
func (none) mode() bool        { return false }

func (none) try(c *client) (verdict, error) { return verdict{checked: true, in: c.right}, nil }

// window is a fixed window, as in most limiters: it counts from its start.
type window struct {
	began time.Time
	count int
}

// add counts one more in a window of this length, and returns the count.
func (w *window) add(now time.Time, length time.Duration) int {
	if now.Sub(w.began) >= length {
		*w = window{began: now}
	}
	w.count++
	return w.count
}

func (w *window) has(now time.Time, length time.Duration) int {
	if w == nil || now.Sub(w.began) >= length {
		return 0
	}
	return w.count
}

func of[K comparable](all map[K]*window, key K) *window {
	w := all[key]
	if w == nil {
		w = &window{}
		all[key] = w
	}
	return w
}

// windows bans an IP address for ten minutes after five failures within ten minutes: fail2ban's defaults.
type windows struct {
	clock
	failed map[netip.Addr]*window
	banned map[netip.Addr]time.Time
}

func (d *windows) mode() bool { return false }

func (d *windows) try(c *client) (v verdict, err error) {
	const most, within = 5, 10 * time.Minute
	if d.now.Before(d.banned[c.address]) {
		return v, nil
	}
	v = verdict{checked: true, in: c.right}
	if !v.in && of(d.failed, c.address).add(d.now, within) >= most {
		d.banned[c.address] = d.now.Add(within)
		delete(d.failed, c.address)
	}
	return v, nil
}

// lockout locks an account for fifteen minutes after five failures within fifteen minutes without a success, as most
// directories and frameworks do.
type lockout struct {
	clock
	failed map[string]*window
}

func (d *lockout) mode() bool { return false }

func (d *lockout) try(c *client) (v verdict, err error) {
	const most, within = 5, 15 * time.Minute
	w := of(d.failed, c.account)
	if w.has(d.now, within) >= most {
		return v, nil
	}
	v = verdict{checked: true, in: c.right}
	switch n := 0; {
	case v.in:
		delete(d.failed, c.account)
	default:
		if n = w.add(d.now, within); n >= most {
			w.began = d.now // the lock starts now
		}
	}
	return v, nil
}

// mark is a browser that has logged in to an account.
type mark struct {
	account string
	device  int
}

// deviceCookies is OWASP's protocol ("Slow Down Online Guessing Attacks with Device Cookies"). Browsers that have
// logged in have their own limit, all others share one limit of the account. A client that exceeds it is locked out.
// OWASP leaves N and T open; here N is 10 and T an hour.
type deviceCookies struct {
	clock
	known     map[mark]bool
	devices   map[mark]*window
	strangers map[string]*window
}

func (d *deviceCookies) mode() bool { return false }

func (d *deviceCookies) try(c *client) (v verdict, err error) {
	const most, within = 10, time.Hour
	me := mark{c.account, c.device}
	w := of(d.strangers, c.account)
	if c.device > 0 && d.known[me] {
		w = of(d.devices, me)
	}
	if w.has(d.now, within) >= most {
		return v, nil
	}
	v = verdict{checked: true, in: c.right}
	switch {
	case v.in && c.device > 0:
		d.known[me] = true
		delete(d.devices, me)
	case v.in:
	default:
		if w.add(d.now, within) >= most {
			w.began = d.now
		}
	}
	return v, nil
}

// captcha is the site-wide switch as first proposed: a CAPTCHA for all clients while more than a fixed number of logins
// a minute fail, and ten minutes longer.
type captcha struct {
	clock
	failed window
	until  time.Time
}

func (d *captcha) mode() bool { return d.now.Before(d.until) }

func (d *captcha) try(c *client) (v verdict, err error) {
	const most, cool = 500, 10 * time.Minute
	if v.challenged = d.mode(); v.challenged && !c.solves {
		d.fail(most, cool)
		return v, nil
	}
	v.checked, v.in = true, c.right
	if !v.in {
		d.fail(most, cool)
	}
	return v, nil
}

func (d *captcha) fail(most int, cool time.Duration) {
	if d.failed.add(d.now, time.Minute) > most {
		d.until = d.now.Add(cool)
	}
}

// machine is an IP address, or a browser with a cookie, that has logged in to an account.
type machine struct {
	account string
	address netip.Addr
	device  int
}

// pgrp is the Password Guessing Resistant Protocol (Alsaleh, Mannan and van Oorschot, 2012). Known machines have 30
// failures a day, all others together three per account and day; then a challenge is required. A machine is known for
// 30 days.
type pgrp struct {
	clock
	known map[machine]time.Time
	at    map[machine]*window // failures of known machines
	of    map[string]*window  // failures of unknown machines, by account
}

func (d *pgrp) mode() bool { return false }

func (d *pgrp) try(c *client) (v verdict, err error) {
	const k1, k2, t1, day = 30, 3, 30 * 24 * time.Hour, 24 * time.Hour
	place, browser := machine{c.account, c.address, 0}, machine{c.account, netip.Addr{}, c.device}
	me, isKnown := place, d.is(place, t1)
	if c.device > 0 && d.is(browser, t1) {
		me, isKnown = browser, true
	}
	isKnown = isKnown && d.at[me].has(d.now, day) < k1
	if !isKnown && of(d.of, c.account).has(d.now, day) >= k2 {
		if v.challenged = true; !c.solves {
			return v, nil
		}
	}
	v.checked, v.in = true, c.right
	switch {
	case v.in:
		d.known[place] = d.now
		if c.device > 0 {
			d.known[browser] = d.now
		}
		delete(d.at, me)
	case isKnown:
		of(d.at, me).add(d.now, day)
	case !v.challenged:
		of(d.of, c.account).add(d.now, day)
	}
	return v, nil
}

func (d *pgrp) is(m machine, within time.Duration) bool {
	last, ok := d.known[m]
	return ok && d.now.Sub(last) < within
}
