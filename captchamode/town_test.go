package captchamode_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"authguard/captchamode"
)

// A town is a mode, its clock, and people and attackers with places of their own.
type town struct {
	*captchamode.Mode
	now      time.Time
	dice     *rand.Rand
	serial   int
	single   bool // every stranger is at one address
	switches []captchamode.Switch
	on       int // minutes in which the mode was on
	lastOn   int // the newest of them
	minutes  int
}

func newTown(t *testing.T, c captchamode.Config) *town {
	t.Helper()
	w := &town{now: time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC), dice: rand.New(rand.NewPCG(1, 2))}
	var err error
	w.Mode, err = captchamode.NewMode(c, func() time.Time { return w.now }, func(s captchamode.Switch) { w.switches = append(w.switches, s) })
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// key is the digest of the nth of something.
func key(n int) (k [16]byte) { return from(n*2654435761, uint64(n)) }

// stranger is a pair at an address that nobody has seen before.
func (w *town) stranger() (pair, address [16]byte) {
	if w.serial++; w.single {
		return key(1<<40 + w.serial), key(-1)
	}
	return key(1<<40 + w.serial), key(w.serial)
}

// fail has n strangers fail once each.
func (w *town) fail(n int) {
	for range n {
		pair, address := w.stranger()
		w.Failed(pair, address, [16]byte{}, w.now)
	}
}

// login has one of so many people log in.
func (w *town) login(people int) {
	pair, _ := w.stranger()
	w.LoggedIn(key(w.dice.IntN(people)), pair, true, w.now)
}

// minute lets a minute pass in steps. Of each step now happens first.
func (w *town) minute(now func(step int)) {
	for step := range steps {
		now(step)
		w.now = w.now.Add(time.Minute / steps)
		w.Tick()
	}
	if w.On() {
		w.on++
		w.lastOn = w.minutes
	}
	w.minutes++
}

const steps = 12 // of a minute

// due is how many of n a minute come in a step, spread evenly.
func due(n, step int) int { return n*(step+1)/steps - n*step/steps }
