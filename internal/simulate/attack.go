package simulate

import (
	"fmt"
	"math/rand/v2"
	"time"
)

type raid struct {
	Attack
	*town
	r     *rand.Rand
	block int // first address of its range
	done  int
	looks string
}

func (t *town) raid(a Attack, number int, seed uint64) *raid {
	if a.Accounts == 0 {
		a.Accounts = t.Accounts
	}
	if a.Passwords == 0 {
		a.Passwords = common
	}
	looks := browser(a.Browser)
	if a.Browser == 0 {
		looks = fmt.Sprint("attacker ", number)
	}
	return &raid{Attack: a, town: t, r: rand.New(rand.NewPCG(seed, 100+uint64(number))), block: number << 20, looks: looks}
}

// due returns how many attempts should have been made by a time since the start.
func (r *raid) due(at time.Duration) int {
	part := float64(at-r.From) / float64(r.For)
	return int(min(max(part, 0), 1) * float64(r.Attempts))
}

// guess returns the next attempt. For Own, one in twenty is a login to the attacker's own account, which is not a
// guess.
func (r *raid) guess() (c client, own bool) {
	i := r.done
	r.done++
	c = client{target: -1, address: address(attackers+byte(r.block>>20), r.r.IntN(max(1, r.Addresses))), browser: r.looks,
		solves: r.Solves}
	person := i % r.Accounts
	switch r.Kind {
	case Hammer:
		each := max(1, r.Attempts/r.Accounts)
		person = min(i/each, r.Accounts-1)
		c.word = i % each
		if c.word >= common {
			c.word += 1 << 25 // beyond the common ones, no user has it
		}
	case Spray, Neighbour, Pool, Walk, Own:
		c.word = i / r.Accounts % r.Passwords
	case Stuff:
		if c.word = 1<<25 + i; r.r.Float64() < r.Right {
			c.word = r.words[person]
		}
	case Invent:
		c.account = fmt.Sprint("nobody", r.r.IntN(1<<30))
		c.word = r.r.IntN(common)
		return c, false
	}
	switch {
	case r.Kind == Neighbour:
		c.address = r.shared
	case r.Kind == Pool:
		c.address = address(carrier, r.r.IntN(r.Carrier))
	case r.Kind == Own && i%20 == 19:
		c.account, c.word, c.right = fmt.Sprint("attacker", c.address), -1, true
		return c, true
	}
	c.account, c.target = r.names[person], person
	return c, false
}
