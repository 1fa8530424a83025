package alerts

import "time"

// A Kind is what an alert is about: a stable code. The wiring may raise kinds
// of its own, such as "redis-lost".
type Kind string

// The kinds that the Alerter raises by itself.
const (
	ModeOn            Kind = "captcha-mode-on"
	ModeOff           Kind = "captcha-mode-off"
	AttackBegan       Kind = "attack-began"
	AttackEnded       Kind = "attack-ended"
	AccountAttacked   Kind = "account-attacked"
	SuspiciousSuccess Kind = "suspicious-success"
	ForgottenProxy    Kind = "forgotten-proxy"
)

var titles = map[Kind]string{
	ModeOn:            "CAPTCHA mode is on",
	ModeOff:           "CAPTCHA mode is off",
	AttackBegan:       "An attack on the login began",
	AttackEnded:       "The attack on the login ended",
	AccountAttacked:   "Accounts are under attack",
	SuspiciousSuccess: "A login succeeded from a new place after many wrong passwords",
	ForgottenProxy:    "A proxy in front of authguard is not configured",
}

// atOnce kinds do not wait for a bundle.
func (k Kind) atOnce() bool { return k == ModeOn }

// important kinds may use the whole ceiling; a part of it is theirs alone, and
// they are the last to be counted instead of kept.
func (k Kind) important() bool {
	return k == ModeOn || k == ModeOff || k == AttackBegan || k == AttackEnded
}

// An alert is one thing to tell.
type alert struct {
	id    uint64
	at    time.Time
	kind  Kind
	title string
	body  string
}
