package simulate

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"time"

	"authguard/internal/replay"
)

type raid struct {
	Attack
	*town
	r     *rand.Rand
	block int // first address of its range
	done  int
	looks string
	order []int // of Pairs: the accounts of the leak, by attempt; from Accounts on, they do not exist here
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
	r := &raid{Attack: a, town: t, r: rand.New(rand.NewPCG(seed, 100+uint64(number))), block: number << 20, looks: looks}
	if a.Kind == Pairs {
		r.order = r.r.Perm(max(a.Attempts, a.Accounts))
	}
	return r
}

// due returns how many attempts should have been made by a time since the start.
func (r *raid) due(at time.Duration) int {
	part := float64(at-r.From) / float64(r.For)
	return int(min(max(part, 0), 1) * float64(r.Attempts))
}

// guess returns the next attempt. For Own, one in twenty is a login to the attacker's own account, which is not a
// guess.
func (r *raid) guess() step {
	i := r.done
	r.done++
	from := apart(attackers+byte(r.block>>20), r.r.IntN(max(1, r.Addresses)))
	s := step{Ask: replay.Ask{Address: from, Client: r.looks, Solves: r.Solves}, kind: guessed, person: i % r.Accounts}
	switch r.Kind {
	case Hammer:
		each := max(1, r.Attempts/r.Accounts)
		s.person = min(i/each, r.Accounts-1)
		s.word = i % each
		if s.word >= common {
			s.word += 1 << 25 // beyond the common ones, no user has it
		}
	case Spray, Neighbour, Pool, Walk, Own:
		s.word = i / r.Accounts % r.Passwords
	case Stuff:
		if s.word = 1<<25 + i; r.r.Float64() < r.Right {
			s.word = r.words[s.person]
		}
	case Pairs:
		s.word = 1<<25 + i
		if s.person = r.order[i]; s.person >= r.Accounts {
			s.Account, s.person = fmt.Sprint("elsewhere", s.person), -1
			return s
		}
		if real := float64(min(r.Attempts, r.Accounts)); r.r.Float64() < r.Right*float64(r.Attempts)/real {
			s.word = r.words[s.person]
		}
		if r.Networks {
			home := r.homes[s.person].As4()
			home[3] ^= byte(1 + r.r.IntN(255))
			s.Address = netip.AddrFrom4(home)
		}
	case Invent:
		s.Account = fmt.Sprint("nobody", r.r.IntN(1<<30))
		s.word, s.person = r.r.IntN(common), -1
		return s
	}
	switch {
	case r.Kind == Neighbour:
		s.Address = r.shared
	case r.Kind == Pool:
		s.Address = address(carrier, r.r.IntN(r.Carrier))
	case r.Kind == Own && i%20 == 19:
		s.Account, s.word, s.Right, s.kind = fmt.Sprint("attacker", s.Address), -1, true, ownWord
		return s
	}
	s.Account = r.names[s.person]
	return s
}
