package doctor

import (
	"context"
	"database/sql"
	"fmt"
	"strings"

	"authguard/guard"
	"authguard/internal/accounts"
	"authguard/internal/config"
	"authguard/internal/passwords"
)

// manyHashes bounds what is counted.
const manyHashes = 1_000_000

// directory looks a name up that nobody has.
func directory(ctx context.Context, c Config, n *notes) {
	source, err := c.Directory(c.Settings.Accounts.LDAP)
	if err == nil {
		err = source.Try(ctx)
	}
	n.check("accounts.ldap", "answers a search. It does not reveal its kinds of password hashes.",
		problem(err != nil, "Check that it runs, that accounts.ldap.tls_ca has its issuer's certificate, and that accounts.ldap.bind_dn may search below accounts.ldap.base.",
			"does not answer a search: %s. Every login gets 503.", why(err)))
}

// ownHashes counts the kinds of hash in our own table, realm by realm.
func ownHashes(ctx context.Context, c Config, db *sql.DB, n *notes) {
	realms := []string{guard.DefaultRealm} // where administrators always are
	for _, r := range c.Settings.Realms {
		if r.Accounts.Source == config.SourceTable {
			realms = append(realms, r.Name)
		}
	}
	for _, realm := range realms {
		census, err := accounts.CensusOfTable(ctx, db, realm, manyHashes)
		whose := ""
		switch {
		case realm != guard.DefaultRealm:
			whose = " of the realm " + realm
		case c.Settings.Accounts.Source != config.SourceTable:
			whose = " of administrators (other accounts are in accounts.source)"
		}
		if n.check("accounts.hashes", "", problem(err != nil, "Let authguard's role read the table accounts.", "does not return its kinds of password hashes: %s.", why(err))) {
			hashes(n, census, "", whose)
		}
	}
}

// hashes tells how many accounts of a place have which kind of hash. The place is
// empty if n is about it.
func hashes(n *notes, census *passwords.Census, place, whose string) {
	var good, weak, bad []string
	all, cannot, found := 0, 0, 0
	for _, one := range census.Counts() {
		all += one.Accounts
		switch {
		case one.Problem != "":
			cannot += one.Accounts
			bad = append(bad, fmt.Sprintf("%d with %s", one.Accounts, one.Problem))
		case one.Weak:
			found += one.Accounts
			weak = append(weak, fmt.Sprintf("%d with %s", one.Accounts, one.Kind))
		default:
			good = append(good, fmt.Sprintf("%d with %s", one.Accounts, one.Kind))
		}
	}
	if all == 0 {
		return
	}
	if all >= manyHashes {
		whose += " (no more were counted)"
	}
	if place != "" {
		place += " "
	}
	n.check("accounts.hashes", fmt.Sprintf("%scontains the password hashes of %d accounts%s: %s.", place, all, whose, strings.Join(append(good, weak...), ", ")),
		problem(cannot > 0, "Set new passwords where the accounts are kept (in authguard's table: authguard user set-password NAME). docs/accounts.md lists the supported kinds.",
			"%scontains unsupported password hashes, so %d of %d accounts%s cannot log in: %s.", place, cannot, all, whose, strings.Join(bad, ", ")))
	n.check("accounts.weak", "", advice(found > 0, "In authguard's table each hash is upgraded at the next login. Elsewhere upgrade them with the program that keeps the accounts.",
		"%scontains weak password hashes, which are easy to crack if stolen, for %d of %d accounts%s: %s.", place, found, all, whose, strings.Join(weak, ", ")))
}
