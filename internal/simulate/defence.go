package simulate

import (
	"errors"
	"fmt"
	"net/netip"
	"time"

	"authguard/guard"
	"authguard/internal/replay"
)

type client struct {
	account string
	address netip.Addr
	device  int // browser that keeps its cookie; 0: keeps none
	browser string
	target  int  // the user whose account is guessed; -1: none
	word    int  // the password
	right   bool // it is the account's password
	solves  bool
	pass    bool // with a verification code
}

type verdict struct {
	checked    bool // the password was checked
	in         bool
	challenged bool          // a challenge was shown
	wait       time.Duration // delay before the next attempt
	pass       bool          // a verification code would be accepted
}

// defence is what a site does against brute force. It is not safe for concurrent use.
type defence interface {
	advance(to time.Time)
	try(c *client) (verdict, error)
	// mode reports whether all clients are challenged.
	mode() bool
}

// ours is authguard.
type ours struct {
	*replay.Site
	cookies map[int]string
	words   map[int]uint64
}

func newOurs(setup replay.Setup, start time.Time) (defence, error) {
	site, err := replay.NewSite(setup, start)
	return &ours{site, map[int]string{}, map[int]uint64{}}, err
}

func (o *ours) advance(to time.Time) { o.Advance(to) }
func (o *ours) mode() bool           { return o.ModeOn() }

func (o *ours) try(c *client) (v verdict, err error) {
	word, ok := o.words[c.word]
	if !ok {
		word = o.Fingerprint(fmt.Sprint("word", c.word))
		if len(o.words) < 1<<16 {
			o.words[c.word] = word
		}
	}
	a, err := o.Try(replay.Ask{
		Account: c.account, Address: c.address, Keeps: c.device > 0, Device: o.cookies[c.device], Client: c.browser,
		Password: word,
		Right:    c.right, Solves: c.solves, Code: c.pass,
	})
	if err != nil {
		return v, err
	}
	if a.Device != "" {
		o.cookies[c.device] = a.Device
	}
	v = verdict{checked: a.Checked, in: a.In, challenged: a.Challenged}
	if a.Action == guard.Delay {
		v.wait = max(a.RetryAfter, time.Second)
	}
	v.pass = !a.In && v.wait == 0
	return v, nil
}

// Defences lists the defenses that can be simulated besides authguard: what other sites do, as far as it is documented.
func Defences() []string {
	return []string{"none", "windows", "lockout", "cookies", "captchamode", "pgrp"}
}

func newDefence(name string) (defence, error) {
	switch name {
	case "none":
		return none{}, nil
	case "windows":
		return &windows{banned: map[netip.Addr]time.Time{}, failed: map[netip.Addr]*window{}}, nil
	case "lockout":
		return &lockout{failed: map[string]*window{}}, nil
	case "cookies":
		return &deviceCookies{known: map[mark]bool{}, devices: map[mark]*window{}, strangers: map[string]*window{}}, nil
	case "captchamode":
		return &captcha{}, nil
	case "pgrp":
		return &pgrp{known: map[machine]time.Time{}, at: map[machine]*window{}, of: map[string]*window{}}, nil
	}
	return nil, errors.New("simulate: no such defence")
}
