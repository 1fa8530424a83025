package accounts

import "time"

// MayLogIn and VersionOf are of an entry, GroupNames of its groups, and Refused of a bind.
var (
	MayLogIn   = mayLogIn
	VersionOf  = versionOf
	GroupNames = groupNames
	Refused    = refused
)

// Sample is how long a bind of nobody takes.
func (l *LDAP) Sample() time.Duration { return l.sample() }

// Took has a bind have taken so long.
func (l *LDAP) Took(d time.Duration) { l.took(d) }
