package config

import (
	"fmt"
	"log/slog"
	"math"
	"strconv"
	"strings"

	"github.com/dustin/go-humanize"
)

// hidden is printed in place of a secret.
const hidden = "(set)"

// A Secret prints as "(set)", or as nothing if it is empty, however it is
// formatted, logged or marshalled: a Config in a log line reveals nothing.
type Secret string

// Reveal is the secret itself.
func (s Secret) Reveal() string { return string(s) }

// String is "(set)", or empty if the secret is.
func (s Secret) String() string {
	if s == "" {
		return ""
	}
	return hidden
}

// GoString is String, for the verb %#v.
func (s Secret) GoString() string { return strconv.Quote(s.String()) }

// MarshalText is String, for JSON and log/slog.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// A Size is an amount of memory in bytes.
type Size int64

// Units of a Size.
const (
	KiB Size = 1 << 10
	MiB Size = 1 << 20
	GiB Size = 1 << 30
)

// String is the size in its largest whole unit: exact, unlike the library's.
func (s Size) String() string {
	units := []string{"B", "KiB", "MiB", "GiB"}
	for len(units) > 1 && s != 0 && s%1024 == 0 {
		s, units = s/1024, units[1:]
	}
	return fmt.Sprintf("%d%s", int64(s), units[0])
}

// parseSize reads 256MiB, 1.5GiB or 500MB. It refuses a comma: the library
// would read 1,5GiB as 15.
func parseSize(text string) (Size, error) {
	n, err := humanize.ParseBytes(text)
	if err != nil || n > math.MaxInt64 || strings.Contains(text, ",") {
		return 0, strconv.ErrSyntax
	}
	return Size(n), nil
}

// Types of the settings whose values are words.
type (
	SecureCookies   string // when cookies carry the Secure attribute
	ForwardedHeader string // in which the configured proxies name the client
	RedisMode       string // how Redis is run
	AccountSource   string // where passwords are looked up
	ChallengeKind   string // what a stranger has to solve
	ListFormat      string // of a named list's file
	ListVerdict     string // what becomes of logins from a named list
	LogFormat       string // of the program's log
	LogLevel        string // the least important level that is logged
	MFA             string // whether administrators need more than a password
)

// The words.
const (
	SecureAuto   SecureCookies = "auto" // if the request came over TLS, here or at a proxy, or the origin is https
	SecureAlways SecureCookies = "always"
	SecureNever  SecureCookies = "never"

	MFAOptional MFA = "optional" // those who have set one up
	MFARequired MFA = "required" // all: nothing else opens before they have

	XForwardedFor ForwardedHeader = "x-forwarded-for"
	Forwarded     ForwardedHeader = "forwarded" // RFC 7239

	RedisStandalone RedisMode = "standalone"
	RedisSentinel   RedisMode = "sentinel"
	RedisCluster    RedisMode = "cluster"

	SourceTable    AccountSource = "table" // authguard's own
	SourceHtpasswd AccountSource = "htpasswd"
	SourceQuery    AccountSource = "query" // another program's table
	SourceLDAP     AccountSource = "ldap"  // a directory

	KindImage ChallengeKind = "image"
	KindPow   ChallengeKind = "pow"  // work that the browser does
	KindBoth  ChallengeKind = "both" // work and a picture
	// The others are providers on the web: see package challenge/remote.
	KindTurnstile ChallengeKind = "turnstile"
	KindHCaptcha  ChallengeKind = "hcaptcha"
	KindReCAPTCHA ChallengeKind = "recaptcha"
	KindFriendly  ChallengeKind = "friendly"

	ListPlain  ListFormat = "plain"
	ListIPCat  ListFormat = "ipcat"
	ListScored ListFormat = "scored"

	ListLimits ListVerdict = "limits"
	ListBlock  ListVerdict = "block"
	ListAllow  ListVerdict = "allow"

	FormatText LogFormat = "text"
	FormatJSON LogFormat = "json"

	LevelDebug LogLevel = "debug"
	LevelInfo  LogLevel = "info"
	LevelWarn  LogLevel = "warn"
	LevelError LogLevel = "error"
)

// Slog is the level as package slog knows it; LevelInfo for anything unknown.
func (l LogLevel) Slog() slog.Level {
	var level slog.Level // info
	_ = level.UnmarshalText([]byte(l))
	return level
}
