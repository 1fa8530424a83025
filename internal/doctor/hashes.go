package doctor

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"maps"
	"slices"
	"strings"

	"authguard/guard"
	"authguard/internal/accounts"
	"authguard/internal/config"
	"authguard/internal/passwords"
)

const manyHashes = 1_000_000

func directory(ctx context.Context, c Config, n *notes) {
	source, err := accounts.OpenLDAP(c.Settings.Accounts.LDAP, guard.NormaliseAccount)
	if err == nil {
		err = source.Try(ctx)
	}
	n.check("accounts.ldap", "answers a search. It does not reveal its kinds of password hashes.",
		problem(err != nil, "Check that it runs, that accounts.ldap.tls_ca has its issuer's certificate, and that "+
			"accounts.ldap.bind_dn may search below accounts.ldap.base.",
			"does not answer a search: %s. Every login gets 503.", why(err)))
}

func ownHashes(ctx context.Context, c Config, db *sql.DB, n *notes) {
	realms := []string{guard.DefaultRealm} // administrators are always in the default realm
	for _, r := range c.Settings.Realms {
		if r.Accounts.Source == config.SourceTable {
			realms = append(realms, r.Name)
		}
	}
	for _, realm := range realms {
		count := census{}
		err := accounts.EachHash(ctx, db, realm, manyHashes, count.add)
		whose := ""
		switch {
		case realm != guard.DefaultRealm:
			whose = " of the realm " + realm
		case c.Settings.Accounts.Source != config.SourceTable:
			whose = " of administrators (other accounts are in accounts.source)"
		}
		if n.check("accounts.hashes", "", problem(err != nil, "Let authguard's role read the table accounts.",
			"does not return its kinds of password hashes: %s.", why(err))) {
			count.write(n, "", whose)
		}
	}
}

// census counts accounts by kind of hash. The zero census is empty.
type census map[hashKind]int

type hashKind struct {
	text      string
	weak, bad bool
}

func (c census) add(hash string) {
	h, err := passwords.Parse(hash)
	switch {
	case passwords.NoPassword(hash):
		c[hashKind{text: "no password"}]++
	case err != nil:
		c[hashKind{text: strings.TrimPrefix(err.Error(), passwords.ErrHash.Error()+": it is "), bad: true}]++
	default:
		c[hashKind{text: h.Kind(), weak: h.Weak()}]++
	}
}

// counts returns the number of matching accounts, and their kinds, the most frequent first.
func (c census) counts(of func(hashKind) bool) (accounts int, kinds []string) {
	all := slices.DeleteFunc(slices.Collect(maps.Keys(c)), func(v hashKind) bool { return !of(v) })
	slices.SortFunc(all, func(a, b hashKind) int { return cmp.Or(cmp.Compare(c[b], c[a]), cmp.Compare(a.text, b.text)) })
	for _, v := range all {
		accounts += c[v]
		kinds = append(kinds, fmt.Sprintf("%d with %s", c[v], v.text))
	}
	return accounts, kinds
}

// write reports how many accounts have which kind of hash. place is empty if n is about it.
func (c census) write(n *notes, place, whose string) {
	good, checked := c.counts(func(v hashKind) bool { return !v.weak && !v.bad })
	found, weak := c.counts(func(v hashKind) bool { return v.weak })
	cannot, bad := c.counts(func(v hashKind) bool { return v.bad })
	all := good + found + cannot
	if all == 0 {
		return
	}
	if all >= manyHashes {
		whose += " (no more were counted)"
	}
	if place != "" {
		place += " "
	}
	kinds := strings.Join(append(checked, weak...), ", ")
	n.check("accounts.hashes", fmt.Sprintf("%scontains the password hashes of %d accounts%s: %s.", place, all, whose,
		kinds),
		problem(cannot > 0, "Set new passwords where the accounts are kept (in authguard's table: authguard user "+
			"set-password NAME). docs/how-to/accounts.md lists the supported kinds.",
			"%scontains unsupported password hashes, so %d of %d accounts%s cannot log in: %s.", place, cannot, all, whose,
			strings.Join(bad, ", ")))
	n.check("accounts.weak", "", advice(found > 0,
		"In authguard's table each hash is upgraded at the next login. Elsewhere upgrade them with the program that keeps "+
			"the accounts.",
		"%scontains weak password hashes, which are easy to crack if stolen, for %d of %d accounts%s: %s.", place, found, all,
		whose, strings.Join(weak, ", ")))
}
