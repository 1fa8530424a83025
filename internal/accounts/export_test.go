package accounts

import "time"

// MayLogIn and VersionOf are of an entry.
var (
	MayLogIn  = mayLogIn
	VersionOf = versionOf
)

// Took has a bind have taken so long.
func (l *LDAP) Took(d time.Duration) { l.took(d) }
