package alerts

import (
	"slices"
	"time"
)

// A Kind is a stable code for what an alert is about. Callers of
// [Alerter.Raise] add their own, such as "redis-lost".
type Kind string

// The kinds that the Alerter finds in the events.
const (
	ModeOn            Kind = "captcha-mode-on"
	ModeOff           Kind = "captcha-mode-off"
	AttackBegan       Kind = "attack-began"
	AttackEnded       Kind = "attack-ended"
	AccountAttacked   Kind = "account-attacked"
	AddressRefused    Kind = "address-refused"
	ClientsAttack     Kind = "clients-attack"
	SuspiciousSuccess Kind = "suspicious-success"
	SprayedRight      Kind = "sprayed-password-right"
	Sprayed           Kind = "password-sprayed"
	ManyFailures      Kind = "many-failures"
	FewerFailures     Kind = "fewer-failures"
	ChannelDead       Kind = "alert-channel-dead"
	ChannelBack       Kind = "alert-channel-back"
	SteadyPressure    Kind = "steady-pressure"
	EventLimit        Kind = "event-limit"
	EventQuiet        Kind = "event-quiet"
	ModeWatched       Kind = "captcha-mode-watched"
	AddressWatched    Kind = "address-watched"
	// Of the policy; whoever switches it raises them.
	PolicyWatched  Kind = "policy-watched"
	PolicyEnforced Kind = "policy-enforced"
)

// The kinds that package control raises: somebody can sign in at the administration who
// could not before, or more easily.
const (
	AdministratorAdded  Kind = "administrator-added"
	SecondFactorRemoved Kind = "second-factor-removed"
	RecoveryCodeUsed    Kind = "recovery-code-used"
	PasskeyCopied       Kind = "passkey-copied"
	TokenAdded          Kind = "token-added"
)

var titles = map[Kind]string{
	ModeOn:              "CAPTCHA mode is on",
	ModeOff:             "CAPTCHA mode is off",
	AttackBegan:         "An attack on the login began",
	AttackEnded:         "The attack on the login ended",
	AccountAttacked:     "Accounts are under attack",
	AddressRefused:      "Addresses are refused",
	ClientsAttack:       "Clients that look alike fail at many logins",
	ChannelDead:         "An alert channel is dead",
	ChannelBack:         "An alert channel works again",
	SprayedRight:        "A stranger has an account's right password, which is tried on many accounts",
	Sprayed:             "One password is being tried on many accounts",
	SuspiciousSuccess:   "A suspicious login succeeded from a new place",
	ManyFailures:        "More logins fail than usual",
	FewerFailures:       "As many logins fail as usual again",
	EventLimit:          "A limit on events was reached",
	EventQuiet:          "A limit on events is quiet again",
	ModeWatched:         "CAPTCHA mode would be on, and only watches",
	AddressWatched:      "Addresses would be refused, and the limit only watches",
	AdministratorAdded:  "There is another administrator",
	SecondFactorRemoved: "An administrator's second factor was removed",
	RecoveryCodeUsed:    "An administrator signed in with a recovery code",
	PasskeyCopied:       "An administrator's passkey has been copied",
	TokenAdded:          "A token was made",
	SteadyPressure:      "Guessing goes on just below the threshold of CAPTCHA mode",
}

// atOnce reports whether the kind does not wait for a bundle.
func (k Kind) atOnce() bool { return k == ModeOn }

// important reports whether the kind may use the part of the ceiling that is
// reserved. Such alerts are also the last to be counted instead of kept.
func (k Kind) important() bool {
	return k == ModeOn || k == ModeOff || k == AttackBegan || k == AttackEnded
}

// wakes reports whether the kind goes out in quiet hours too: an attack, somebody who
// got in, or was let in for good, and what nobody can log in without.
func (k Kind) wakes() bool {
	return k.important() || slices.Contains([]Kind{
		SuspiciousSuccess, SprayedRight, ChannelDead, ModeWatched, PolicyWatched, AdministratorAdded, SecondFactorRemoved, RecoveryCodeUsed, PasskeyCopied, TokenAdded, "storage-failed", "storage-back", "accounts-failed", "accounts-back", "redis-lost", "redis-back", "redis-emptied",
		"counters-lost", "counters-failed", "counters-back",
	}, k)
}

// page is where administrators see more of it.
func (k Kind) page() string {
	switch k {
	case AttackEnded, SuspiciousSuccess, SprayedRight, Sprayed:
		return "/attacks"
	case AccountAttacked:
		return "/accounts?sort=failures"
	case EventLimit, EventQuiet:
		return "/audit?kind=event"
	case PolicyWatched, PolicyEnforced:
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
	Realm string    `json:"realm,omitempty"` // empty for the default one, and for what is no realm's own
	Kind  Kind      `json:"kind"`
	Title string    `json:"title"` // constant text
	Body  string    `json:"body"`  // plain text of a few lines
	// Page is the address of the administration's page about it, if that is known (Config.URL).
	Page string `json:"page,omitempty"`
}
