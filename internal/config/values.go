package config

import (
	"fmt"
	"log/slog"
	"math"
	"strconv"
	"strings"

	"github.com/dustin/go-humanize"
)

const hidden = "(set)"

// Secret prints as "(set)", or as nothing if empty, however it is formatted, logged or marshaled: a Config in a log
// line reveals no secret.
type Secret string

// Reveal returns the secret itself.
func (s Secret) Reveal() string { return string(s) }

// String returns "(set)", or "" for an empty secret.
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

// Size is an amount of memory in bytes.
type Size int64

// Units of a Size.
const (
	KiB Size = 1 << 10
	MiB Size = 1 << 20
	GiB Size = 1 << 30
)

// String returns the size in its largest whole unit: exact, unlike the library's.
func (s Size) String() string {
	units := []string{"B", "KiB", "MiB", "GiB"}
	for len(units) > 1 && s != 0 && s%1024 == 0 {
		s, units = s/1024, units[1:]
	}
	return fmt.Sprintf("%d%s", int64(s), units[0])
}

// parseSize parses 256MiB, 1.5GiB or 500MB. It rejects a comma: the library would read 1,5GiB as 15.
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
	ForwardedHeader string // the header with the client's IP address from configured proxies
	RedisMode       string // how Redis is deployed
	AccountSource   string // where passwords are looked up
	ChallengeKind   string // what unknown clients have to solve
	ListFormat      string // of an IP list's file
	ListVerdict     string // the action for logins from an IP list
	LogFormat       string
	LogLevel        string // minimum level
	MFA             string // whether administrators need MFA
	ProxyScript     string // whether the app's pages get the script for challenges
)

// The values of those types.
const (
	SecureAuto   SecureCookies = "auto" // if the request came over TLS, here or at a proxy, or the origin is https
	SecureAlways SecureCookies = "always"
	SecureNever  SecureCookies = "never"

	MFAOptional MFA = "optional" // for those who have set it up
	MFARequired MFA = "required" // for all: without MFA, only its setup is accessible

	XForwardedFor ForwardedHeader = "x-forwarded-for"
	Forwarded     ForwardedHeader = "forwarded" // RFC 7239

	ScriptAuto   ProxyScript = "auto"
	ScriptAlways ProxyScript = "always"
	ScriptNever  ProxyScript = "never"

	RedisStandalone RedisMode = "standalone"
	RedisSentinel   RedisMode = "sentinel"
	RedisCluster    RedisMode = "cluster"

	SourceTable    AccountSource = "table" // authguard's own
	SourceHtpasswd AccountSource = "htpasswd"
	SourceQuery    AccountSource = "query" // another program's table
	SourceLDAP     AccountSource = "ldap"

	KindImage ChallengeKind = "image"
	KindPow   ChallengeKind = "pow"  // proof of work
	KindBoth  ChallengeKind = "both" // proof of work and image CAPTCHA
	// Providers on the web: see package challenge/remote.
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

// Slog returns the level for package slog; LevelInfo if unknown.
func (l LogLevel) Slog() slog.Level {
	var level slog.Level
	_ = level.UnmarshalText([]byte(l))
	return level
}
