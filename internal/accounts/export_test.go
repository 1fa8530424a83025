package accounts

import "time"

// MayLogIn and VersionOf are of an entry.
var (
	MayLogIn  = mayLogIn
	VersionOf = versionOf
)

// Took has a bind have taken so long.
func (l *LDAP) Took(d time.Duration) { l.took(d) }

// PublicOf is a Public over another source.
func PublicOf(s Source, c PublicConfig) *Public { return &Public{Source: s, config: c} }

// LookingUp is how many clients look names up.
func (p *Public) LookingUp() int { return len(p.lookUps.of) }

// Settle makes changed files be read from this age on.
func (h *HtpasswdSource) Settle(age time.Duration) { h.settled = age }
