package alerts

import "time"

// A Kind is a stable code of an alert's subject. Callers of [Alerter.Raise] add their own, such as
// "unconfigured-proxy".
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
	ManyNewClients    Kind = "many-new-clients"
	SprayedRight      Kind = "sprayed-password-correct"
	Sprayed           Kind = "password-spraying"
	LeakedPassword    Kind = "leaked-password"
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
	PolicyChanged   Kind = "limits-overridden"
)

// The kinds that package control raises: new or easier access to the admin console.
const (
	AdministratorAdded  Kind = "administrator-added"
	SecondFactorRemoved Kind = "mfa-removed"
	RecoveryCodeUsed    Kind = "recovery-code-used"
	PasskeyCopied       Kind = "passkey-cloned"
	TokenAdded          Kind = "token-created"
)

// Kinds about parts of the server.
const (
	CountersLost      Kind = "counters-lost"
	CountersFailed    Kind = "counters-failed"
	countersBack      Kind = "counters-recovered"
	databaseFailed    Kind = "database-failed"
	databaseBack      Kind = "database-recovered"
	clockOff          Kind = "clock-skew"
	redisLost         Kind = "redis-lost"
	redisBack         Kind = "redis-recovered"
	redisEmptied      Kind = "redis-emptied"
	challengesFilling Kind = "challenge-store-filling"
	challengesRoom    Kind = "challenge-store-recovered"
	accountsFailed    Kind = "accounts-unavailable"
	accountsBack      Kind = "accounts-recovered"
	queueCrowded      Kind = "password-queue-crowded"
	unusableHash      Kind = "unusable-hash"
	codesFailed       Kind = "mail-failed"
	noticesFailed     Kind = "notifications-failed"
	providerLost      Kind = "captcha-provider-failed"
	providerBack      Kind = "captcha-provider-recovered"
	looseRoute        Kind = "route-matches-every-login"
	ListExpiring      Kind = "list-expiring"
)

// A meaning is what docs/reference/alerts.md says about a kind. Messages contain its title and what to do.
type meaning struct {
	kind    Kind
	title   string // constant text; callers of [Alerter.Raise] can pass another
	urgent  bool   // attacks, new access, and failures that block all logins
	when    string
	todo    string // empty: nothing
	runbook string // a page in docs/runbooks, without .md
}

// meanings are all kinds, in the order of docs/reference/alerts.md. Run make reference after a change.
var meanings = []meaning{
	{ModeOn,
		"CAPTCHA mode is on", true,
		"The failure rate exceeded the threshold, or an administrator turned CAPTCHA mode on",
		"If users cannot sign in, see the runbook",
		"login-attack",
	},
	{ModeOff,
		"CAPTCHA mode is off", true,
		"The cool-down ended, or an administrator turned CAPTCHA mode off",
		"If no administrator did this during an attack, run authguard captcha auto",
		"login-attack",
	},
	{AttackBegan,
		"Login attack started", true,
		"The failure rate exceeded captcha_mode.throttle_at; within a day of the last attack, only a large one",
		"Run authguard status",
		"login-attack",
	},
	{AttackEnded,
		"Login attack ended", true,
		"The attack on the site is over; with its numbers and possibly compromised accounts",
		"Run authguard attack remediate ID if accounts are possibly compromised",
		"account-compromised",
	},
	{AccountAttacked,
		"Brute force against an account", false,
		"Unknown clients reached a limit of the account; once a day, not during an attack on the site",
		"If the owner cannot sign in, run authguard user create-code",
		"users-cannot-sign-in",
	},
	{AddressAttack,
		"Brute force from an IP address", false,
		"An IP address reached a limit, with less than half as many successes as failures",
		"If it is not your own proxy or office, run authguard ip block",
		"login-attack",
	},
	{ClientsAttack,
		"Client fingerprint reached its limit", false,
		"Unknown clients with one fingerprint reached limits.fingerprint; once a day",
		"Compare it with a common browser in the audit log before you enforce the limit",
		"login-attack",
	},
	{ModeMonitored,
		"CAPTCHA mode would be on (monitored)", true,
		"The failure rate exceeded the threshold while CAPTCHA mode is monitored",
		"Run authguard limit enforce mode, or authguard captcha enable",
		"login-attack",
	},
	{PolicyMonitored,
		"Limits are in monitoring mode", true,
		"An administrator set limits to monitor, or their enforcement ended",
		"If this was not intended, run authguard limit enforce all --reason TEXT, and look at who did it in the audit log",
		"",
	},
	{PolicyEnforced,
		"Limits are enforced again", false,
		"Monitored limits are enforced again",
		"",
		"",
	},
	{PolicyChanged,
		"Limits are overridden", true,
		"An administrator replaced configured limits for a time",
		"If this was not intended, run authguard limit reset all --reason TEXT, and look at who did it in the audit log",
		"",
	},
	{ManyFailures,
		"Login failure ratio above normal", false,
		"For ten minutes, the ratio exceeded alerts.failure_ratio and twice its normal value",
		"Look for a broken login program or a slow attack in the audit log",
		"login-attack",
	},
	{FewerFailures,
		"Login failure ratio back to normal", false,
		"The ratio has been normal for half an hour",
		"",
		"",
	},
	{SteadyFailureRate,
		"Failure rate stays just below the CAPTCHA mode threshold", false,
		"For 12 hours, the failure rate was above half of the threshold",
		"If this is normal, set captcha_mode.baseline; otherwise, run authguard captcha enable",
		"login-attack",
	},
	{SuspiciousSuccess,
		"Suspicious login from an unknown client", true,
		"An unknown client signed in after 5 wrong passwords, or with a sprayed password",
		"Ask the owner; if it was not them, run authguard user set-password NAME --generate --must-change --reason TEXT",
		"account-compromised",
	},
	{ManyNewClients,
		"One account signed in from many new clients", true,
		"An account signed in from more than ten new clients within an hour; once a day per account",
		"Check with authguard doctor whether a route takes wrong passwords for right ones, then ask the owner",
		"account-compromised",
	},
	{SprayedRight,
		"Correct password used during password spraying", true,
		"A sprayed password was correct and was answered as wrong; once a day per account",
		"Reset the account's password",
		"account-compromised",
	},
	{Sprayed,
		"Password spraying detected", false,
		"Unknown clients failed with one password on limits.spray accounts",
		"Look for sprayed-password-correct",
		"login-attack",
	},
	{LeakedPassword,
		"Login with a leaked password", false,
		"A correct password is known from leaks: an administrator's, or with passwords.leaked.action: alert; once a day per account",
		"Ask the owner to choose another password",
		"",
	},
	{EventLimit,
		"Event limit reached", false,
		"A limit on events with the action alert was reached on a node",
		"Run authguard audit --kind event",
		"",
	},
	{EventQuiet,
		"Event limit no longer exceeded", false,
		"No event exceeded the limit for its window",
		"",
		"",
	},
	{"unconfigured-proxy",
		"Unconfigured proxy", false,
		"Three accounts signed in from one private IP address that is not in trusted_proxies",
		"Add the setting that the alert contains",
		"users-cannot-sign-in",
	},
	{"proxy-names-no-client",
		"Proxy does not forward client IP addresses", false,
		"Three accounts signed in, or ten failed, from the address of a trusted proxy",
		"Add the line in the alert to the proxy's configuration",
		"users-cannot-sign-in",
	},
	{looseRoute,
		"A proxy route matches every login", true,
		"A login with a made-up account and password matches success, which cannot tell right passwords from wrong ones",
		"Correct success: run authguard proxy detect, or see what only a successful login returns",
		"",
	},
	{ListExpiring,
		"IP list entries expire soon", false,
		"Entries of the IP lists expire within a day; once a day",
		"Extend those that you need with authguard ip block or ip allow",
		"",
	},
	{queueCrowded,
		"One account or address fills the queue for password checks", false,
		"One account or IP address has a quarter of all password checks, and others wait",
		"Block the IP address, or repair the program that sends them",
		"service-unavailable",
	},
	{AdministratorAdded,
		"Administrator added", true,
		"An administrator was added",
		"If you do not know why, run authguard admin remove NAME --reason TEXT",
		"",
	},
	{SecondFactorRemoved,
		"An administrator's MFA was removed", true,
		"An administrator's TOTP app, passkey or MFA was removed",
		"If the administrator did not ask for it, run authguard admin reset-password",
		"",
	},
	{RecoveryCodeUsed,
		"Administrator signed in with a recovery code", true,
		"An administrator signed in with a recovery code",
		"Ask the administrator; if it was not them, run authguard admin reset-password",
		"",
	},
	{PasskeyCopied,
		"A passkey was cloned", true,
		"The signature counter of a passkey decreased; it is now rejected",
		"Remove the passkey, and register a new one",
		"",
	},
	{TokenAdded,
		"API token created", true,
		"An API token was created",
		"If you do not know why, run authguard token revoke",
		"",
	},
	{ChannelDead,
		"Alert channel failed", true,
		"Three attempts to send through a channel failed; sent through the others",
		"Run authguard doctor --alerts, and correct alerts.to",
		"",
	},
	{ChannelBack,
		"Alert channel works again", false,
		"The channel works again",
		"",
		"",
	},
	{clockOff,
		"A machine's clock is wrong", false,
		"A node's clock differs from Redis or PostgreSQL by more than 5 s",
		"Synchronize the clocks with NTP",
		"",
	},
	{unusableHash,
		"Password hashes of an unsupported kind", false,
		"A user signed in to an account with an unsupported hash; once an hour",
		"Run authguard doctor, and reset the passwords of these accounts",
		"users-cannot-sign-in",
	},
	{accountsFailed,
		"Accounts cannot be looked up", true,
		"The account database or directory does not respond; every login gets 503",
		"Repair the database or directory",
		"service-unavailable",
	},
	{accountsBack,
		"Accounts can be looked up again", true,
		"The database or directory responds again",
		"",
		"",
	},
	{databaseFailed,
		"The database cannot be written", true,
		"A node cannot write to the database; every login gets 503",
		"Free disk space, or repair the database",
		"service-unavailable",
	},
	{databaseBack,
		"The database can be written again", true,
		"The node can write again",
		"",
		"",
	},
	{CountersFailed,
		"Counters cannot be saved", true,
		"A node cannot save its counters",
		"Free disk space, or correct the permissions of the data folder",
		"service-unavailable",
	},
	{countersBack,
		"Counters can be saved again", true,
		"The node can save its counters again",
		"",
		"",
	},
	{CountersLost,
		"Counters were lost", true,
		"At startup, saved counters were missing, damaged or too large",
		"Check the disk and counters.memory; watch for attacks until the counters are complete",
		"",
	},
	{"not-me",
		"An owner reported a sign-in as not theirs", false,
		"A user reported that a login was not theirs; sessions and known clients were removed",
		"Ask the owner, and force a password change",
		"account-compromised",
	},
	{noticesFailed,
		"Emails to account owners cannot be sent", false,
		"An email about a sign-in or a password could not be sent; it is retried",
		"Check mail.server and the mail server's log",
		"",
	},
	{codesFailed,
		"Verification codes cannot be sent", false,
		"The mail server rejected an email with a verification code; it is retried for ten minutes",
		"Check mail.server; until then, run authguard user create-code",
		"users-cannot-sign-in",
	},
	{providerLost,
		"The challenge provider cannot be used", false,
		"The CAPTCHA provider does not respond or rejects the keys; the image CAPTCHA replaces it",
		"Check the keys and the provider's status page",
		"",
	},
	{providerBack,
		"The challenge provider answers again", false,
		"The provider responds again",
		"",
		"",
	},
	{redisLost,
		"Redis cannot be used", true,
		"A node counts locally, or does not start because another version uses Redis",
		"Run authguard doctor, and repair Redis",
		"redis-lost",
	},
	{redisEmptied,
		"Redis has lost its data", true,
		"Redis was flushed or restarted without its data; counters start from zero",
		"Enable persistence in Redis; watch for attacks",
		"redis-lost",
	},
	{redisBack,
		"Redis is back", true,
		"The node shares its counters again",
		"",
		"",
	},
	{challengesFilling,
		"The store of used challenges is almost full", false,
		"The store of used challenges is four fifths full; when full, no challenge can be solved",
		"Find out who requests challenges: run authguard status",
		"login-attack",
	},
	{challengesRoom,
		"The store of used challenges has room again", false,
		"The store is less than half full",
		"",
		"",
	},
}

// meaning returns the kind's meaning; the zero value if it is unknown.
func (k Kind) meaning() meaning {
	for _, one := range meanings {
		if one.kind == k {
			return one
		}
	}
	return meaning{}
}

// atOnce reports whether the kind is never grouped.
func (k Kind) atOnce() bool { return k == ModeOn }

// important kinds may use the reserved part of the hourly maximum, and lose their text last.
func (k Kind) important() bool {
	return k == ModeOn || k == ModeOff || k == AttackBegan || k == AttackEnded
}

// urgent reports whether services with priorities get a high one.
func (k Kind) urgent() bool { return k.meaning().urgent }

// page returns the admin page with more details.
func (k Kind) page() string {
	switch k {
	case AttackEnded, SuspiciousSuccess, ManyNewClients, SprayedRight, Sprayed, AddressAttack:
		return "/attacks"
	case AccountAttacked:
		return "/accounts?sort=failures"
	case EventLimit, EventQuiet:
		return "/audit?kind=event"
	case PolicyMonitored, PolicyEnforced, PolicyChanged:
		return "/policy"
	case AdministratorAdded, SecondFactorRemoved, RecoveryCodeUsed, PasskeyCopied, TokenAdded:
		return "/administrators"
	case ChannelDead, ChannelBack:
		return "/alerts"
	case ListExpiring:
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
