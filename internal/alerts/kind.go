package alerts

import (
	"slices"
	"time"
)

// A Kind is a stable code of an alert's subject. Callers of [Alerter.Raise] add their own, such as "redis-lost".
type Kind string

// The kinds that the Alerter raises for events.
const (
	ModeOn            Kind = "captcha-mode-on"
	ModeOff           Kind = "captcha-mode-off"
	AttackBegan       Kind = "attack-started"
	AttackEnded       Kind = "attack-ended"
	AccountAttacked   Kind = "account-attacked"
	AddressAttack     Kind = "address-attack"
	ClientsAttack     Kind = "fingerprint-attacked"
	SuspiciousSuccess Kind = "suspicious-success"
	SprayedRight      Kind = "sprayed-password-correct"
	Sprayed           Kind = "password-spraying"
	ManyFailures      Kind = "failure-ratio-high"
	FewerFailures     Kind = "failure-ratio-normal"
	ChannelDead       Kind = "alert-channel-failed"
	ChannelBack       Kind = "alert-channel-recovered"
	SteadyFailureRate Kind = "failure-rate-steady"
	EventLimit        Kind = "event-limit"
	EventQuiet        Kind = "event-limit-cleared"
	ModeMonitored     Kind = "captcha-mode-monitored"
	// Raised by changes of the policy.
	PolicyMonitored Kind = "limits-monitored"
	PolicyEnforced  Kind = "limits-enforced"
)

// The kinds that package control raises: new or easier access to the admin console.
const (
	AdministratorAdded  Kind = "administrator-added"
	SecondFactorRemoved Kind = "mfa-removed"
	RecoveryCodeUsed    Kind = "recovery-code-used"
	PasskeyCopied       Kind = "passkey-cloned"
	TokenAdded          Kind = "token-created"
)

var titles = map[Kind]string{
	ModeOn:              "CAPTCHA mode is on",
	ModeOff:             "CAPTCHA mode is off",
	AttackBegan:         "Login attack started",
	AttackEnded:         "Login attack ended",
	AccountAttacked:     "Brute force against an account",
	AddressAttack:       "Brute force from an IP address",
	ClientsAttack:       "Client fingerprint reached its limit",
	ChannelDead:         "Alert channel failed",
	ChannelBack:         "Alert channel works again",
	SprayedRight:        "Correct password used during password spraying",
	Sprayed:             "Password spraying detected",
	SuspiciousSuccess:   "Suspicious login from an unknown client",
	ManyFailures:        "Login failure ratio above normal",
	FewerFailures:       "Login failure ratio back to normal",
	EventLimit:          "Event limit reached",
	EventQuiet:          "Event limit no longer exceeded",
	ModeMonitored:       "CAPTCHA mode would be on (monitored)",
	AdministratorAdded:  "Administrator added",
	SecondFactorRemoved: "An administrator's MFA was removed",
	RecoveryCodeUsed:    "Administrator signed in with a recovery code",
	PasskeyCopied:       "An administrator's passkey was cloned",
	TokenAdded:          "API token created",
	SteadyFailureRate:   "Failure rate stays just below the CAPTCHA mode threshold",
}

// atOnce reports whether the kind is never grouped.
func (k Kind) atOnce() bool { return k == ModeOn }

// important kinds may use the reserved part of the hourly maximum, and lose their text last.
func (k Kind) important() bool {
	return k == ModeOn || k == ModeOff || k == AttackBegan || k == AttackEnded
}

// urgent reports whether services with priorities get a high one: attacks, new access, and failures that block all
// logins.
func (k Kind) urgent() bool {
	return k.important() || slices.Contains([]Kind{
		SuspiciousSuccess, SprayedRight, ChannelDead, ModeMonitored, PolicyMonitored, AdministratorAdded, SecondFactorRemoved,
		RecoveryCodeUsed, PasskeyCopied, TokenAdded, "database-failed", "database-recovered", "accounts-unavailable",
		"accounts-recovered", "redis-lost", "redis-recovered", "redis-emptied",
		"counters-lost", "counters-failed", "counters-recovered",
	}, k)
}

// page returns the admin page with more details.
func (k Kind) page() string {
	switch k {
	case AttackEnded, SuspiciousSuccess, SprayedRight, Sprayed, AddressAttack:
		return "/attacks"
	case AccountAttacked:
		return "/accounts?sort=failures"
	case EventLimit, EventQuiet:
		return "/audit?kind=event"
	case PolicyMonitored, PolicyEnforced:
		return "/policy"
	case AdministratorAdded, SecondFactorRemoved, RecoveryCodeUsed, PasskeyCopied, TokenAdded:
		return "/administrators"
	case ChannelDead, ChannelBack:
		return "/alerts"
	case "list-expiring":
		return "/lists"
	case "not-me":
		return "/audit?what=not-me"
	}
	return "/"
}

// An Alert is one notification.
type Alert struct {
	ID    int64     `json:"id,string"` // ascends, and differs on every node
	At    time.Time `json:"at"`
	Realm string    `json:"realm,omitempty"` // empty for the default realm and for alerts without a realm
	Kind  Kind      `json:"kind"`
	Title string    `json:"title"` // constant text
	Body  string    `json:"body"`  // plain text of a few lines
	// Page is the URL of the page about it, if Config.URL is known.
	Page string `json:"page,omitempty"`
}
