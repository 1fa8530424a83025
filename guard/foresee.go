package guard

import (
	"slices"

	"authguard/failures"
	"authguard/trusted"
)

// Foresee tells what attempts will be charged to under the policy in force: the
// subjects of a privileged place and of a stranger, for every kind of attempt.
// A store that has to prepare for them can. Their keys stand for nobody.
func (g *Guard) Foresee(tell func(privileged, stranger []failures.Subject)) {
	for kind := range 1 << 4 {
		is := func(bit int) bool { return kind>>bit&1 == 1 }
		v := view{known: known{
			rules: g.rules.Load(), account: digest{1}, network: digest{2}, address: digest{3}, pair: digest{4},
			claimed: is(0), slowing: is(1), suspect: is(2), unasked: true,
		}}
		if is(3) {
			v.listed = Allowed
		}
		v.count()
		stranger := slices.Clone(v.subjects[:v.n])
		v.status = trusted.Privileged
		v.count()
		tell(v.subjects[:v.n], stranger)
	}
}
